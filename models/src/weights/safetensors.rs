//! A folder of safetensors files, one or many, with MLX affine quantisation as its config.json says.
//!
//! Headers are parsed by the crate `safetensors` (the format's own); places, shapes and the file's length are held against
//! each other before any tensor is read.

use super::{AffineRows, Described, Float, Form, Source};
use crate::config::Quant;
use crate::engine::EngineError;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The format's own ceiling on a header.
const HEADER_BYTES_MAX: u64 = 100_000_000;

/// An open folder. Nothing but headers is in memory.
#[derive(Debug)]
pub struct SafetensorsFolder {
    dir: PathBuf,
    files: Vec<(PathBuf, File)>,
    tensors: BTreeMap<String, Place>,
    quant: Option<Quant>,
}

#[derive(Debug)]
struct Place {
    file: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    /// From the start of the file.
    offset: u64,
}

impl SafetensorsFolder {
    /// Opens every `*.safetensors` of the folder except `skip`.
    pub fn open(dir: &Path, quant: Option<Quant>, skip: &[&str]) -> Result<Self, EngineError> {
        let load = |file: &Path, reason: String| EngineError::Load { file: file.to_owned(), reason };
        let list = std::fs::read_dir(dir).map_err(|e| load(dir, format!("cannot be listed: {e}")))?;
        let mut paths: Vec<PathBuf> = list.filter_map(Result::ok).map(|e| e.path()).collect();
        paths.retain(|p| p.extension().is_some_and(|x| x == "safetensors"));
        paths.retain(|p| !skip.iter().any(|s| p.file_name().is_some_and(|n| n == *s)));
        paths.sort();
        if paths.is_empty() {
            return Err(load(dir, "has no *.safetensors file".to_owned()));
        }
        let mut folder = SafetensorsFolder { dir: dir.to_owned(), files: Vec::new(), tensors: BTreeMap::new(), quant };
        for path in paths {
            folder.add(&path).map_err(|reason| load(&path, reason))?;
        }
        Ok(folder)
    }

    fn add(&mut self, path: &Path) -> Result<(), String> {
        // A pipe would wait for its other end for ever.
        if !std::fs::metadata(path).map_err(|e| format!("cannot be opened: {e}"))?.is_file() {
            return Err("is not a plain file".to_owned());
        }
        let mut file = File::open(path).map_err(|e| format!("cannot be opened: {e}"))?;
        let size = file.metadata().map_err(|e| format!("cannot be read: {e}"))?.len();
        let mut eight = [0u8; 8];
        file.read_exact(&mut eight).map_err(|_| format!("is truncated: {size} bytes, not even a header's length"))?;
        let header = u64::from_le_bytes(eight);
        if header > HEADER_BYTES_MAX || header + 8 > size {
            return Err(format!("is truncated or no safetensors file: a header of {header} bytes in a file of {size}"));
        }
        let mut head = Vec::new();
        file.by_ref().take(header).read_to_end(&mut head).map_err(|e| format!("header: {e}"))?;
        let meta: Metadata = serde_json::from_slice(&head).map_err(|e| format!("header: {e}"))?;
        let mut end = 0;
        for name in meta.offset_keys() {
            let info = meta.info(&name).ok_or_else(|| format!("header: tensor {name} has no entry"))?;
            end = in_its_place(&name, info, end, size - 8 - header)?;
            let place = Place { file: self.files.len(), dtype: info.dtype, shape: info.shape.clone(), offset: 8 + header + info.data_offsets.0 as u64 };
            if let Some(other) = self.tensors.insert(name.clone(), place) {
                return Err(format!("tensor {name} is also in {}", self.files.get(other.file).map_or(path, |f| &f.0).display()));
            }
        }
        if 8 + header + end as u64 != size {
            return Err(format!("is {size} bytes long, its header says {}", 8 + header + end as u64));
        }
        self.files.push((path.to_owned(), file));
        Ok(())
    }

    fn get(&self, path: &str, leaf: &str) -> Result<&Place, EngineError> {
        self.tensors.get(&format!("{path}.{leaf}")).ok_or_else(|| self.bad(path, leaf, "is missing"))
    }

    fn float(&self, path: &str, leaf: &str) -> Result<(&Place, Float), EngineError> {
        let place = self.get(path, leaf)?;
        let float = match place.dtype {
            Dtype::F32 => Float::F32,
            Dtype::F16 => Float::F16,
            Dtype::BF16 => Float::BF16,
            other => return Err(self.bad(path, leaf, &format!("is of type {other:?}: F32, F16 and BF16 are served"))),
        };
        Ok((place, float))
    }

    /// Bytes of rows of a matrix whose rows are `row` bytes.
    fn read(&self, path: &str, leaf: &str, place: &Place, row: usize, rows: &Range<usize>) -> Result<Vec<u8>, EngineError> {
        let mut buf = vec![0u8; rows.len() * row];
        let (_, file) = &self.files[place.file];
        file.read_exact_at(&mut buf, place.offset + (rows.start * row) as u64).map_err(|e| self.bad(path, leaf, &format!("cannot be read: {e}")))?;
        Ok(buf)
    }

    fn matrix(&self, path: &str, leaf: &str, place: &Place) -> Result<(usize, usize), EngineError> {
        match place.shape[..] {
            [rows, cols] => Ok((rows, cols)),
            _ => Err(self.bad(path, leaf, &format!("has shape {:?}: a matrix is needed", place.shape))),
        }
    }

    fn describe_affine(&self, path: &str) -> Result<Described, EngineError> {
        let words = self.get(path, "weight")?;
        if words.dtype != Dtype::U32 {
            return Err(self.bad(path, "weight", &format!("has scales beside it, but is of type {:?} and not U32", words.dtype)));
        }
        let bits = self.quant.as_ref().and_then(|q| q.of(path));
        let bits = bits.ok_or_else(|| self.bad(path, "scales", "is there, but config.json's quantization does not say so"))?;
        let (rows, width) = self.matrix(path, "weight", words)?;
        let (place, float) = self.float(path, "scales")?;
        let (srows, groups) = self.matrix(path, "scales", place)?;
        let cols = groups * bits.group;
        if srows != rows || cols * bits.bits != width * 32 {
            let why = format!("has shape [{srows}, {groups}], which does not fit weight's [{rows}, {width}] at {} bits in groups of {}", bits.bits, bits.group);
            return Err(self.bad(path, "scales", &why));
        }
        let (bias, bias_float) = self.float(path, "biases")?;
        if bias.shape != place.shape || bias_float != float {
            return Err(self.bad(
                path,
                "biases",
                &format!("has shape {:?} of {bias_float:?}: like scales, {:?} of {float:?} is needed", bias.shape, place.shape),
            ));
        }
        Ok(Described { rows, cols, form: Form::Affine { bits: bits.bits, group: bits.group, float } })
    }
}

/// A tensor must begin where the one before it ended, be as long as its shape says, and end within the file's `data` bytes.
fn in_its_place(name: &str, info: &TensorInfo, begin: usize, data: u64) -> Result<usize, String> {
    let (from, to) = info.data_offsets;
    let bits = info.shape.iter().try_fold(info.dtype.bitsize(), |n, d| n.checked_mul(*d));
    if from != begin || to < from || bits != (to - from).checked_mul(8) {
        return Err(format!("header: tensor {name} of {:?} {:?} cannot be at bytes {from} to {to}", info.dtype, info.shape));
    }
    if to as u64 > data {
        return Err(format!("is truncated: tensor {name} needs {to} bytes of data, {data} are there"));
    }
    Ok(to)
}

impl Source for SafetensorsFolder {
    fn has(&self, path: &str, leaf: &str) -> bool {
        self.tensors.contains_key(&format!("{path}.{leaf}"))
    }

    fn describe(&self, path: &str) -> Result<Described, EngineError> {
        if self.has(path, "scales") {
            return self.describe_affine(path);
        }
        let (place, float) = self.float(path, "weight")?;
        let (rows, cols) = self.matrix(path, "weight", place)?;
        Ok(Described { rows, cols, form: Form::Dense(float) })
    }

    fn dense(&self, path: &str, rows: Range<usize>, out: &mut Vec<f32>) -> Result<(), EngineError> {
        let (place, float) = self.float(path, "weight")?;
        let (_, cols) = self.matrix(path, "weight", place)?;
        float.widen(&self.read(path, "weight", place, cols * float.bytes(), &rows)?, out);
        Ok(())
    }

    fn affine(&self, path: &str, rows: Range<usize>) -> Result<AffineRows, EngineError> {
        let d = self.describe_affine(path)?;
        let Form::Affine { bits, group, float } = d.form else { unreachable!("describe_affine gives affine forms") };
        let words = self.read(path, "weight", self.get(path, "weight")?, d.cols * bits / 8, &rows)?;
        let words = words.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let part = |leaf: &str| self.read(path, leaf, self.get(path, leaf)?, d.cols / group * float.bytes(), &rows);
        Ok(AffineRows { bits, group, cols: d.cols, words, float, scales: part("scales")?, biases: part("biases")? })
    }

    fn vector(&self, path: &str, leaf: &str, len: usize) -> Result<Vec<f32>, EngineError> {
        let (place, float) = self.float(path, leaf)?;
        if place.shape != [len] {
            return Err(self.bad(path, leaf, &format!("has shape {:?}: [{len}] is needed", place.shape)));
        }
        let mut out = Vec::with_capacity(len);
        float.widen(&self.read(path, leaf, place, len * float.bytes(), &(0..1))?, &mut out);
        Ok(out)
    }

    fn bad(&self, path: &str, leaf: &str, reason: &str) -> EngineError {
        let name = format!("{path}.{leaf}");
        // A missing tensor's file is the folder: any of its files might have held it.
        let file = self.tensors.get(&name).map_or(&self.dir, |p| &self.files[p.file].0);
        EngineError::Load { file: file.clone(), reason: format!("tensor {name} {reason}") }
    }
}
