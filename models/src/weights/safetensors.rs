//! A folder of safetensors files, one or many, with MLX affine quantisation as its config.json says.
//!
//! Places, shapes and the file's length are held against each other (`header`), the files against their index (`shards`), and
//! the tensors against the model that config.json describes (`strict`), before any tensor is read.

use super::shards::{self, Shards};
use super::{AffineRows, Described, Float, Form, Source, strict};
use crate::config::{Config, Quant};
use crate::engine::EngineError;
use crate::header;
use crate::plain::{self, one_line};
use safetensors::Dtype;
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
    /// Opens the files that the folder's index names; without an index, every `*.safetensors` except `skip`. A tensor that the
    /// model of the folder's config.json does not use is an error, as is one that is missing from the file that the index says.
    pub fn open(dir: &Path, quant: Option<Quant>, skip: &[&str]) -> Result<Self, EngineError> {
        let Shards { files, map } = shards::find(dir, skip)?;
        let mut folder = SafetensorsFolder { dir: dir.to_owned(), files: Vec::new(), tensors: BTreeMap::new(), quant };
        for path in files {
            folder.add(&path).map_err(|reason| EngineError::Load { file: path, reason })?;
        }
        folder.follows(&map)?;
        folder.only_of(&Config::from_dir(dir)?)?;
        Ok(folder)
    }

    fn add(&mut self, path: &Path) -> Result<(), String> {
        let (mut file, size) = plain::open(path).map_err(|e| e.to_string())?;
        let mut eight = [0u8; 8];
        file.read_exact(&mut eight).map_err(|_| format!("is truncated: {size} bytes, not even a header's length"))?;
        let header = u64::from_le_bytes(eight);
        if header > HEADER_BYTES_MAX || header + 8 > size {
            return Err(format!("is truncated or no safetensors file: a header of {header} bytes in a file of {size}"));
        }
        let mut head = Vec::new();
        file.by_ref().take(header).read_to_end(&mut head).map_err(|e| format!("header: {e}"))?;
        for (name, info) in header::tensors(&head, size - 8 - header)? {
            let place = Place { file: self.files.len(), dtype: info.dtype, shape: info.shape, offset: 8 + header + info.data_offsets.0 as u64 };
            if let Some(other) = self.tensors.insert(name.clone(), place) {
                return Err(one_line(&format!("tensor {name} is also in {}", self.files[other.file].0.display())));
            }
        }
        self.files.push((path.to_owned(), file));
        Ok(())
    }

    /// Every tensor must be where the index says.
    fn follows(&self, map: &BTreeMap<String, String>) -> Result<(), EngineError> {
        for (tensor, name) in map {
            let there = self.tensors.get(tensor).is_some_and(|place| self.files[place.file].0.file_name().is_some_and(|n| n == name.as_str()));
            if !there {
                let reason = one_line(&format!("tensor {tensor} is missing, which {} says is here", shards::INDEX));
                return Err(EngineError::Load { file: self.dir.join(name), reason });
            }
        }
        Ok(())
    }

    /// No tensor may be left over.
    fn only_of(&self, config: &Config) -> Result<(), EngineError> {
        let has = |path: &str, leaf: &str| self.has(path, leaf);
        let known = |name: &str| name.rsplit_once('.').is_some_and(|(path, leaf)| strict::known(config, path, leaf, &has));
        let others: Vec<&str> = self.tensors.keys().map(String::as_str).filter(|name| !known(name)).collect();
        let Some(first) = others.first() else { return Ok(()) };
        let file = self.files[self.tensors[*first].file].0.clone();
        Err(EngineError::Load { file, reason: strict::left_over(first, others.len(), "config.json") })
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

    /// Rows of a dense matrix.
    fn rows(&self, path: &str, rows: &Range<usize>) -> Result<Vec<u8>, EngineError> {
        let (place, float) = self.float(path, "weight")?;
        let (_, cols) = self.matrix(path, "weight", place)?;
        self.read(path, "weight", place, cols * float.bytes(), rows)
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
        let cols = groups.saturating_mul(bits.group);
        if srows != rows || Some(cols.saturating_mul(bits.bits)) != width.checked_mul(32) {
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
        let (_, float) = self.float(path, "weight")?;
        float.widen(&self.rows(path, &rows)?, out);
        Ok(())
    }

    fn stored(&self, path: &str, rows: Range<usize>) -> Result<Option<Vec<u8>>, EngineError> {
        self.rows(path, &rows).map(Some)
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
        // Any of several files might have held a missing tensor: then it is the folder that lacks it.
        let file = match (self.tensors.get(&name), &self.files[..]) {
            (Some(place), files) => &files[place.file].0,
            (None, [(only, _)]) => only,
            (None, _) => &self.dir,
        };
        EngineError::Load { file: file.clone(), reason: one_line(&format!("tensor {name} {reason}")) }
    }
}
