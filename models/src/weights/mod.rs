//! Where weights come from: a folder of safetensors or a GGUF file, behind one small trait, read in slabs of rows.
//!
//! Slabs keep the memory of loading near the memory of the loaded model: no tensor is ever in memory twice.

mod affine;
mod gguf;
mod load;
mod metadata;
mod safetensors;
mod shards;
mod strict;
#[cfg(test)]
pub(crate) mod tests;

pub use affine::AffineRows;
pub use gguf::{GgufWeights, failed as gguf_failed};
pub use load::{Embedding, Linear, Loader, Weight};
pub use safetensors::SafetensorsFolder;

use crate::config::Config;
use crate::engine::EngineError;
use mlx_rs::Dtype;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Element types of stored floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Float {
    F32,
    F16,
    BF16,
}

impl Float {
    pub fn bytes(self) -> usize {
        match self {
            Float::F32 => 4,
            Float::F16 | Float::BF16 => 2,
        }
    }

    pub fn mlx(self) -> Dtype {
        match self {
            Float::F32 => Dtype::Float32,
            Float::F16 => Dtype::Float16,
            Float::BF16 => Dtype::Bfloat16,
        }
    }

    /// The nearest value this type can hold.
    pub fn round(self, x: f32) -> f32 {
        match self {
            Float::F32 => x,
            Float::F16 => half::f16::from_f32(x).to_f32(),
            Float::BF16 => half::bf16::from_f32(x).to_f32(),
        }
    }

    /// Appends little-endian elements.
    pub fn widen(self, bytes: &[u8], out: &mut Vec<f32>) {
        match self {
            Float::F32 => out.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
            Float::F16 => out.extend(bytes.chunks_exact(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32())),
            Float::BF16 => out.extend(bytes.chunks_exact(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f32())),
        }
    }
}

/// How a matrix is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Dense(Float),
    /// MLX affine groups along each row; scales and biases are of the float type.
    Affine {
        bits: usize,
        group: usize,
        float: Float,
    },
}

impl Form {
    /// Bytes of a matrix `[rows, cols]`.
    pub fn bytes(self, rows: usize, cols: usize) -> u64 {
        let row = match self {
            Form::Dense(float) => cols * float.bytes(),
            Form::Affine { bits, group, float } => cols * bits / 8 + cols / group * 2 * float.bytes(),
        };
        rows as u64 * row as u64
    }
}

/// A module's matrix `[rows, cols]` (for a linear layer `[out, in]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Described {
    pub rows: usize,
    pub cols: usize,
    pub form: Form,
}

/// What the files at `path`, a folder or a GGUF file, say of a model, and its tensors. Nothing but headers is read.
pub fn open(path: &Path) -> Result<(Config, Box<dyn Source>), EngineError> {
    if path.is_dir() {
        let config = Config::from_dir(path)?;
        let folder = SafetensorsFolder::open(path, config.quant.clone(), &["golden.safetensors"])?;
        return Ok((config, Box::new(folder)));
    }
    let file = crate::gguf::File::open(path).map_err(|e| gguf_failed(&e, path))?;
    let (config, weights) = GgufWeights::open(Arc::new(file))?;
    Ok((config, Box::new(weights)))
}

/// A model's tensors by their module paths, as mlx-lm names them (`model.layers.0.self_attn.q_proj`).
pub trait Source {
    /// Whether there is a tensor `{path}.{leaf}`.
    fn has(&self, path: &str, leaf: &str) -> bool;

    /// Shape and storage of `{path}.weight` as a matrix; fails if it is missing or not a matrix that can be served.
    fn describe(&self, path: &str) -> Result<Described, EngineError>;

    /// Appends rows of a dense matrix, widened.
    fn dense(&self, path: &str, rows: Range<usize>, out: &mut Vec<f32>) -> Result<(), EngineError>;

    /// Rows of a dense matrix as they are stored, little-endian; None where only [`Source::dense`] has them.
    fn stored(&self, _path: &str, _rows: Range<usize>) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(None)
    }

    /// Rows of a quantised matrix, as they are.
    fn affine(&self, path: &str, rows: Range<usize>) -> Result<AffineRows, EngineError>;

    /// A vector `{path}.{leaf}` of exactly `len` elements, widened.
    fn vector(&self, path: &str, leaf: &str, len: usize) -> Result<Vec<f32>, EngineError>;

    /// An error about `{path}.{leaf}` that names the file it is in, or should be in.
    fn bad(&self, path: &str, leaf: &str, reason: &str) -> EngineError;
}
