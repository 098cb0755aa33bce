//! A GGUF file of llama architecture as a [`Source`]: mlx-lm's names, q and k rows un-permuted.

use super::{AffineRows, Described, Float, Form, Source, metadata, strict};
use crate::config::{Config, Scaling};
use crate::engine::EngineError;
use crate::gguf::{self, File, GgufError, Kind, TensorInfo};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// GGUF's names for what stands in a block (llama.cpp's `gguf-py/gguf/constants.py`).
const BLOCK_NAMES: [(&str, &str); 9] = [
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
];

/// Llama 3's scaling as converters write it out: a factor for each rotary pair.
const FACTORS: &str = "rope_freqs.weight";

/// An open file and the sizes that un-permuting needs.
#[derive(Debug)]
pub struct GgufWeights {
    file: Arc<File>,
    heads: usize,
    kv_heads: usize,
}

impl GgufWeights {
    /// The file's config and weights. A tensor that the config's model does not use is an error.
    pub fn open(file: Arc<File>) -> Result<(Config, GgufWeights), EngineError> {
        let mut config = metadata::config(&file)?;
        if let Some(t) = file.find(FACTORS) {
            if config.rope.scaling != Scaling::None {
                let reason = format!("tensor {FACTORS} is there besides llama.rope.scaling: one of the two is served, not both");
                return Err(EngineError::Load { file: file.path().to_owned(), reason });
            }
            config.rope.scaling = Scaling::Factors(factors(&file, t, config.head_dim / 2)?);
        }
        let weights = GgufWeights { file, heads: config.heads, kv_heads: config.kv_heads };
        weights.only_of(&config)?;
        Ok((config, weights))
    }

    /// No tensor may be left over.
    fn only_of(&self, config: &Config) -> Result<(), EngineError> {
        let has = |path: &str, leaf: &str| self.has(path, leaf);
        let known = |name: &str| {
            let path = name.rsplit_once('.').and_then(|(module, leaf)| Some((Self::path(module)?, leaf)));
            name == FACTORS || path.is_some_and(|(path, leaf)| strict::known(config, &path, leaf, &has))
        };
        let others: Vec<&str> = self.file.tensors().iter().map(|t| t.name.as_str()).filter(|name| !known(name)).collect();
        let Some(first) = others.first() else { return Ok(()) };
        Err(EngineError::Load { file: self.file.path().to_owned(), reason: strict::left_over(first, others.len(), "the file's metadata") })
    }

    /// mlx-lm's name for a module of the file.
    fn path(module: &str) -> Option<String> {
        match module {
            "token_embd" => return Some("model.embed_tokens".to_owned()),
            "output_norm" => return Some("model.norm".to_owned()),
            "output" => return Some("lm_head".to_owned()),
            _ => {}
        }
        let (layer, rest) = module.strip_prefix("blk.")?.split_once('.')?;
        BLOCK_NAMES.iter().find(|(_, g)| *g == rest).map(|(hf, _)| format!("model.layers.{layer}.{hf}"))
    }

    fn name(path: &str) -> Option<String> {
        match path {
            "model.embed_tokens" => return Some("token_embd".to_owned()),
            "model.norm" => return Some("output_norm".to_owned()),
            "lm_head" => return Some("output".to_owned()),
            _ => {}
        }
        let (layer, rest) = path.strip_prefix("model.layers.")?.split_once('.')?;
        BLOCK_NAMES.iter().find(|(hf, _)| *hf == rest).map(|(_, g)| format!("blk.{layer}.{g}"))
    }

    fn tensor(&self, path: &str, leaf: &str) -> Result<&TensorInfo, EngineError> {
        let found = Self::name(path).and_then(|n| self.file.find(&format!("{n}.{leaf}")));
        found.ok_or_else(|| self.bad(path, leaf, "is missing"))
    }

    /// GGUF interleaves rotary pairs within a head where mlx-lm keeps halves: the file's row for one of ours.
    fn row(&self, path: &str, rows: usize, row: usize) -> usize {
        let heads = match path.rsplit('.').next() {
            Some("q_proj") => self.heads,
            Some("k_proj") => self.kv_heads,
            _ => return row,
        };
        let dim = rows / heads;
        let (head, within) = (row / dim, row % dim);
        head * dim + within % (dim / 2) * 2 + within / (dim / 2)
    }

    /// Raw bytes of rows in our order.
    fn read(&self, path: &str, rows: Range<usize>) -> Result<(Kind, usize, Vec<u8>), EngineError> {
        let t = self.tensor(path, "weight")?;
        let mut out = Vec::with_capacity(rows.len() * t.row_bytes());
        if self.row(path, t.rows(), 1) == 1 {
            self.file.read_rows(t, rows, &mut out).map_err(|e| failed(&e, self.file.path()))?;
            return Ok((t.kind, t.cols(), out));
        }
        let mut one = Vec::new();
        for r in rows {
            let at = self.row(path, t.rows(), r);
            self.file.read_rows(t, at..at + 1, &mut one).map_err(|e| failed(&e, self.file.path()))?;
            out.extend_from_slice(&one);
        }
        Ok((t.kind, t.cols(), out))
    }
}

/// A reader's error as a load error. Its message begins with the file, which the load error says itself.
pub fn failed(e: &GgufError, file: &Path) -> EngineError {
    let text = e.to_string();
    let reason = text.strip_prefix(&format!("{}: ", file.display())).unwrap_or(&text);
    EngineError::Load { file: file.to_owned(), reason: reason.to_owned() }
}

fn float(kind: Kind) -> Option<Float> {
    match kind {
        Kind::F32 => Some(Float::F32),
        Kind::F16 => Some(Float::F16),
        Kind::BF16 => Some(Float::BF16),
        Kind::Q4_0 | Kind::Q4_1 | Kind::Q8_0 => None,
    }
}

impl Source for GgufWeights {
    fn has(&self, path: &str, leaf: &str) -> bool {
        self.tensor(path, leaf).is_ok()
    }

    fn describe(&self, path: &str) -> Result<Described, EngineError> {
        let t = self.tensor(path, "weight")?;
        let [rows, cols] = t.shape[..] else {
            return Err(self.bad(path, "weight", &format!("has shape {:?}: a matrix is needed", t.shape)));
        };
        let form = match float(t.kind) {
            Some(f) => Form::Dense(f),
            None => Form::Affine { bits: if t.kind == Kind::Q8_0 { 8 } else { 4 }, group: 32, float: Float::F16 },
        };
        Ok(Described { rows, cols, form })
    }

    fn dense(&self, path: &str, rows: Range<usize>, out: &mut Vec<f32>) -> Result<(), EngineError> {
        let (kind, _, bytes) = self.read(path, rows)?;
        let float = float(kind).ok_or_else(|| self.bad(path, "weight", "is quantised where plain floats were expected"))?;
        float.widen(&bytes, out);
        Ok(())
    }

    fn affine(&self, path: &str, rows: Range<usize>) -> Result<AffineRows, EngineError> {
        let (kind, cols, bytes) = self.read(path, rows)?;
        let a = gguf::affine(kind, &bytes).map_err(|e| failed(&e, self.file.path()))?;
        let raw = |v: &[half::f16]| v.iter().flat_map(|x| x.to_le_bytes()).collect();
        Ok(AffineRows { bits: a.bits.into(), group: a.group, cols, float: Float::F16, scales: raw(&a.scales), biases: raw(&a.biases), words: a.words })
    }

    fn vector(&self, path: &str, leaf: &str, len: usize) -> Result<Vec<f32>, EngineError> {
        let t = self.tensor(path, leaf)?;
        let Some(float) = float(t.kind).filter(|_| t.shape == [len]) else {
            return Err(self.bad(path, leaf, &format!("is {} of shape {:?}: floats of shape [{len}] are needed", t.kind, t.shape)));
        };
        let (mut bytes, mut stored) = (Vec::new(), Vec::with_capacity(len));
        self.file.read(t, &mut bytes).map_err(|e| failed(&e, self.file.path()))?;
        float.widen(&bytes, &mut stored);
        Ok((0..len).map(|i| stored[self.row(path, len, i)]).collect())
    }

    fn bad(&self, path: &str, leaf: &str, reason: &str) -> EngineError {
        let name = Self::name(path).unwrap_or_else(|| path.to_owned());
        EngineError::Load { file: self.file.path().to_owned(), reason: format!("tensor {name}.{leaf} {reason}") }
    }
}

fn factors(file: &File, t: &TensorInfo, pairs: usize) -> Result<Vec<f32>, EngineError> {
    if t.kind != Kind::F32 || t.shape != [pairs] {
        let reason = format!("tensor {} is {} of shape {:?}: F32 of shape [{pairs}] is needed", t.name, t.kind, t.shape);
        return Err(EngineError::Load { file: file.path().to_owned(), reason });
    }
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    file.read(t, &mut bytes).map_err(|e| failed(&e, file.path()))?;
    Float::F32.widen(&bytes, &mut out);
    if let Some(f) = out.iter().find(|f| !(f.is_normal() && **f > 0.0)) {
        let reason = format!("tensor {} holds {f}: numbers above 0 are needed", t.name);
        return Err(EngineError::Load { file: file.path().to_owned(), reason });
    }
    Ok(out)
}
