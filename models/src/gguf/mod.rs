//! GGUF files: the container of llama.cpp's models, read without trusting a single length in it.
//!
//! Layout: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>. Little endian, versions 2 and 3.

mod affine;
mod cursor;
mod header;
mod tensor;
#[cfg(test)]
mod tests;
mod value;
#[cfg(test)]
pub(crate) mod writer;

pub use affine::{Affine, affine};
pub use tensor::{Kind, TensorInfo};
pub use value::{Array, Value};

use crate::plain::{self, one_line};
use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Why a file cannot be used. Every message names the file, and the key or tensor at fault.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    #[error("{}: {source}", file.display())]
    Io { file: PathBuf, source: std::io::Error },
    /// The bytes are not what the format allows, or the file is shorter than its header says.
    #[error("{}: {}", file.display(), one_line(reason))]
    Invalid { file: PathBuf, reason: String },
    /// A metadata key is missing, or does not hold what the caller needs.
    #[error("{}: {}", file.display(), one_line(&format!("{key}: {reason}")))]
    Key { file: PathBuf, key: String, reason: String },
    /// A tensor is missing, of a kind that this program cannot read, or shorter than the rows asked for.
    #[error("{}: {}", file.display(), one_line(&format!("tensor {tensor}: {reason}")))]
    Tensor { file: PathBuf, tensor: String, reason: String },
    /// Blocks that do not unpack to an affine group.
    #[error("{kind}: {reason}")]
    Blocks { kind: Kind, reason: String },
}

/// An open GGUF file: its metadata and where its tensors lie. Tensor bytes are read on demand.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    file: std::fs::File,
    version: u32,
    metadata: HashMap<String, Value>,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
}

impl File {
    /// Reads the header and checks it against the file's size; no tensor data is read.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let io = |source| GgufError::Io { file: path.to_owned(), source };
        let (file, size) = plain::open(path).map_err(io)?;
        let header = header::read(&file, size, path)?;
        let by_name = header.tensors.iter().enumerate().map(|(i, t)| (t.name.clone(), i)).collect();
        Ok(Self { path: path.to_owned(), file, version: header.version, metadata: header.metadata, tensors: header.tensors, by_name })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The container's version, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// All tensors, in the file's order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of that name, if the file has one.
    pub fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|&i| &self.tensors[i])
    }

    /// The tensor of that name, or an error that names it.
    pub fn tensor(&self, name: &str) -> Result<&TensorInfo, GgufError> {
        self.find(name).ok_or_else(|| self.tensor_error(name, "not in the file".into()))
    }

    /// Reads rows of a tensor (all axes but the last count as rows; a vector is one row) into `buf`, which is
    /// resized to exactly `rows.len() * tensor.row_bytes()` bytes of the tensor's kind.
    pub fn read_rows(&self, tensor: &TensorInfo, rows: Range<usize>, buf: &mut Vec<u8>) -> Result<(), GgufError> {
        if rows.start > rows.end || rows.end > tensor.rows() {
            let reason = format!("rows {rows:?} asked for, it has {}", tensor.rows());
            return Err(self.tensor_error(&tensor.name, reason));
        }
        let row = tensor.row_bytes();
        buf.clear();
        buf.resize(rows.len() * row, 0);
        self.file
            .read_exact_at(buf, tensor.offset + (rows.start * row) as u64)
            .map_err(|e| self.tensor_error(&tensor.name, format!("cannot read its bytes: {e}")))
    }

    /// Reads a whole tensor into `buf`.
    pub fn read(&self, tensor: &TensorInfo, buf: &mut Vec<u8>) -> Result<(), GgufError> {
        self.read_rows(tensor, 0..tensor.rows(), buf)
    }

    fn tensor_error(&self, tensor: &str, reason: String) -> GgufError {
        GgufError::Tensor { file: self.path.clone(), tensor: tensor.to_owned(), reason }
    }
}
