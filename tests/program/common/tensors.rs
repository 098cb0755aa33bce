//! A safetensors file taken apart, so that a test can damage one thing and leave the rest valid.

use serde_json::{Map, Value, json};
use std::path::Path;

pub(crate) struct Tensors {
    /// In the order of their bytes.
    all: Vec<Tensor>,
}

#[derive(Clone)]
struct Tensor {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Tensors {
    pub(crate) fn read(file: &Path) -> Tensors {
        let bytes = std::fs::read(file).unwrap();
        let (head, rest) = bytes.split_first_chunk().unwrap();
        let (head, data) = rest.split_at(usize::try_from(u64::from_le_bytes(*head)).unwrap());
        let head: Map<String, Value> = serde_json::from_slice(head).unwrap();
        let number = |v: &Value| usize::try_from(v.as_u64().unwrap()).unwrap();
        let mut all: Vec<(usize, Tensor)> = Vec::new();
        for (name, info) in head.iter().filter(|(name, _)| *name != "__metadata__") {
            let (from, to) = (number(&info["data_offsets"][0]), number(&info["data_offsets"][1]));
            let shape = info["shape"].as_array().unwrap().iter().map(number).collect();
            all.push((from, Tensor { name: name.clone(), dtype: info["dtype"].as_str().unwrap().to_owned(), shape, bytes: data[from..to].to_vec() }));
        }
        all.sort_by_key(|(from, _)| *from);
        Tensors { all: all.into_iter().map(|(_, t)| t).collect() }
    }

    pub(crate) fn write(&self, file: &Path) {
        let (mut head, mut data) = (Map::new(), Vec::<u8>::new());
        for t in &self.all {
            let from = data.len();
            data.extend(&t.bytes);
            head.insert(t.name.clone(), json!({"dtype": t.dtype, "shape": t.shape, "data_offsets": [from, data.len()]}));
        }
        let head = Value::Object(head).to_string();
        let mut out = (head.len() as u64).to_le_bytes().to_vec();
        out.extend(head.as_bytes());
        out.extend(data);
        std::fs::write(file, out).unwrap();
    }

    fn find(&mut self, name: &str) -> &mut Tensor {
        self.all.iter_mut().find(|t| t.name == name).unwrap_or_else(|| panic!("no tensor {name}"))
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.find(name);
        self.all.retain(|t| t.name != name);
    }

    /// The tensor again under another name.
    pub(crate) fn copy(&mut self, from: &str, to: &str) {
        let copy = Tensor { name: to.to_owned(), ..self.find(from).clone() };
        self.all.push(copy);
    }

    /// Gives a matrix the other shape with the same bytes.
    pub(crate) fn transpose(&mut self, name: &str) {
        self.find(name).shape.reverse();
    }

    pub(crate) fn set_dtype(&mut self, name: &str, dtype: &str) {
        dtype.clone_into(&mut self.find(name).dtype);
    }

    pub(crate) fn floats(&mut self, name: &str) -> Vec<f32> {
        let t = self.find(name);
        assert_eq!(t.dtype, "F32");
        t.bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }

    pub(crate) fn set_float(&mut self, name: &str, index: usize, value: f32) {
        self.find(name).bytes[index * 4..][..4].copy_from_slice(&value.to_le_bytes());
    }

    /// Whole numbers of 4 or 8 bytes.
    pub(crate) fn ids(&mut self, name: &str) -> Vec<u32> {
        let t = self.find(name);
        let width = t.width();
        t.bytes.chunks_exact(width).map(|b| u32::from_le_bytes(b[..4].try_into().unwrap())).collect()
    }

    pub(crate) fn set_id(&mut self, name: &str, index: usize, id: u32) {
        let t = self.find(name);
        let width = t.width();
        t.bytes[index * width..][..4].copy_from_slice(&id.to_le_bytes());
    }
}

impl Tensor {
    fn width(&self) -> usize {
        match self.dtype.as_str() {
            "I32" | "U32" => 4,
            "I64" => 8,
            other => panic!("{} is {other}, no whole numbers", self.name),
        }
    }
}
