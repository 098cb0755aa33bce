//! A GGUF file of llama architecture as a [`Source`]: mlx-lm's names, q and k rows un-permuted, and its metadata as a config.

use super::{AffineRows, Described, Float, Form, Source};
use crate::config::{Config, Scaling};
use crate::engine::EngineError;
use crate::gguf::{self, File, GgufError, Kind, TensorInfo};
use serde_json::{Map, Value, json};
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

/// An open file and the sizes that un-permuting needs.
#[derive(Debug)]
pub struct GgufWeights {
    file: Arc<File>,
    heads: usize,
    kv_heads: usize,
}

impl GgufWeights {
    /// The file's config and weights.
    pub fn open(file: Arc<File>) -> Result<(Config, GgufWeights), EngineError> {
        let mut config = config(&file)?;
        if let Some(t) = file.find("rope_freqs.weight") {
            config.rope.scaling = Scaling::Factors(factors(&file, t, config.head_dim / 2)?);
        }
        let weights = GgufWeights { file, heads: config.heads, kv_heads: config.kv_heads };
        Ok((config, weights))
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

/// The metadata, put as the config.json that it stands for, so that one set of checks serves both.
fn config(file: &File) -> Result<Config, EngineError> {
    let fail = |e: GgufError| failed(&e, file.path());
    let arch = file.str("general.architecture").map_err(fail)?;
    if arch != "llama" {
        let reason = format!("general.architecture: \"{arch}\" is an unknown architecture; served from GGUF is llama");
        return Err(EngineError::Load { file: file.path().to_owned(), reason });
    }
    let need = |key: &str| file.u64(&format!("llama.{key}")).map_err(fail);
    let (heads, hidden) = (need("attention.head_count")?, need("embedding_length")?);
    let vocab = file.tensor("token_embd.weight").map_err(fail)?.rows();
    let mut map = Map::new();
    let mut put = |k: &str, v: Value| map.insert(k.to_owned(), v);
    put("model_type", json!("llama"));
    put("hidden_size", json!(hidden));
    put("num_hidden_layers", json!(need("block_count")?));
    put("intermediate_size", json!(need("feed_forward_length")?));
    put("num_attention_heads", json!(heads));
    put("num_key_value_heads", json!(if has(file, "llama.attention.head_count_kv") { need("attention.head_count_kv")? } else { heads }));
    put("rms_norm_eps", json!(file.f32("llama.attention.layer_norm_rms_epsilon").map_err(fail)?));
    put("vocab_size", json!(vocab));
    put("max_position_embeddings", json!(need("context_length")?));
    put("tie_word_embeddings", json!(file.find("output.weight").is_none()));
    put("attention_bias", json!(file.find("blk.0.attn_q.bias").is_some()));
    put("mlp_bias", json!(file.find("blk.0.ffn_up.bias").is_some()));
    if has(file, "llama.rope.freq_base") {
        put("rope_theta", json!(file.f32("llama.rope.freq_base").map_err(fail)?));
    }
    if has(file, "llama.attention.key_length") {
        put("head_dim", json!(need("attention.key_length")?));
    }
    if let Some(s) = scaling(file)? {
        put("rope_scaling", s);
    }
    Config::from_json(file.path(), &map)
}

fn scaling(file: &File) -> Result<Option<Value>, EngineError> {
    let fail = |e: GgufError| failed(&e, file.path());
    if !has(file, "llama.rope.scaling.type") {
        return Ok(None);
    }
    let kind = file.str("llama.rope.scaling.type").map_err(fail)?;
    if kind == "none" {
        return Ok(None);
    }
    let factor = file.f32("llama.rope.scaling.factor").map_err(fail)?;
    let mut s = json!({"rope_type": kind, "factor": factor});
    if has(file, "llama.rope.scaling.original_context_length") {
        s["original_max_position_embeddings"] = json!(file.u64("llama.rope.scaling.original_context_length").map_err(fail)?);
    }
    Ok(Some(s))
}

/// Llama 3's scaling as converters write it out: a factor for each rotary pair.
fn factors(file: &File, t: &TensorInfo, pairs: usize) -> Result<Vec<f32>, EngineError> {
    if t.kind != Kind::F32 || t.shape != [pairs] {
        let reason = format!("tensor {} is {} of shape {:?}: F32 of shape [{pairs}] is needed", t.name, t.kind, t.shape);
        return Err(EngineError::Load { file: file.path().to_owned(), reason });
    }
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    file.read(t, &mut bytes).map_err(|e| failed(&e, file.path()))?;
    Float::F32.widen(&bytes, &mut out);
    Ok(out)
}

fn has(file: &File, key: &str) -> bool {
    file.value(key).is_some()
}
