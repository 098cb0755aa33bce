//! A small GGUF writer for tests.

use std::path::PathBuf;

/// Metadata and tensors, in the order they are to be written.
#[derive(Default)]
pub(crate) struct Writer {
    keys: u64,
    metadata: Vec<u8>,
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
    alignment: Option<u32>,
}

impl Writer {
    /// A pair whose value is already encoded, after its type number.
    pub(crate) fn raw(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.keys += 1;
        string(&mut self.metadata, key);
        self.metadata.extend(kind.to_le_bytes());
        self.metadata.extend(value);
        self
    }

    pub(crate) fn u32(self, key: &str, value: u32) -> Self {
        self.raw(key, 4, &value.to_le_bytes())
    }

    pub(crate) fn bool(self, key: &str, value: bool) -> Self {
        self.raw(key, 7, &[value.into()])
    }

    pub(crate) fn str(self, key: &str, value: &str) -> Self {
        let mut bytes = Vec::new();
        string(&mut bytes, value);
        self.raw(key, 8, &bytes)
    }

    pub(crate) fn strings(self, key: &str, values: &[&str]) -> Self {
        let mut bytes = head(8, values.len());
        values.iter().for_each(|v| string(&mut bytes, v));
        self.raw(key, 9, &bytes)
    }

    pub(crate) fn i32s(self, key: &str, values: &[i32]) -> Self {
        let mut bytes = head(5, values.len());
        values.iter().for_each(|v| bytes.extend(v.to_le_bytes()));
        self.raw(key, 9, &bytes)
    }

    pub(crate) fn f32s(self, key: &str, values: &[f32]) -> Self {
        let mut bytes = head(6, values.len());
        values.iter().for_each(|v| bytes.extend(v.to_le_bytes()));
        self.raw(key, 9, &bytes)
    }

    pub(crate) fn alignment(mut self, alignment: u32) -> Self {
        self.alignment = Some(alignment);
        self.u32("general.alignment", alignment)
    }

    /// A tensor with its axes in ggml's order (columns first) and its kind's number.
    pub(crate) fn tensor(mut self, name: &str, axes: &[u64], kind: u32, data: &[u8]) -> Self {
        self.tensors.push((name.into(), axes.to_vec(), kind, data.to_vec()));
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let alignment = self.alignment.unwrap_or(32) as usize;
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend(self.keys.to_le_bytes());
        out.extend(&self.metadata);
        let mut data = Vec::new();
        for (name, axes, kind, bytes) in &self.tensors {
            string(&mut out, name);
            out.extend((axes.len() as u32).to_le_bytes());
            axes.iter().for_each(|a| out.extend(a.to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
            data.resize(data.len().next_multiple_of(alignment), 0);
        }
        out.resize(out.len().next_multiple_of(alignment), 0);
        out.extend(data);
        out
    }

    /// Writes the file into a new folder, which lives as long as the first part of the result.
    pub(crate) fn save(&self) -> (tempfile::TempDir, PathBuf) {
        save(&self.bytes())
    }
}

pub(crate) fn save(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn head(kind: u32, len: usize) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend((len as u64).to_le_bytes());
    out
}
