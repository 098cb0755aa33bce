//! Recorded prompts: ids, logits at every position, greedy ids.

use crate::engine::EngineError;
use crate::model::Model;
use crate::plain::one_line;
use safetensors::{Dtype, SafeTensors};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq)]
pub struct Golden {
    file: PathBuf,
    pub prompts: Vec<Prompt>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    pub ids: Vec<u32>,
    /// `[positions, vocab]`, row-major.
    pub logits: Vec<f32>,
    pub vocab: usize,
    pub greedy: Vec<u32>,
    /// What the same weights give in f32, where the recording is of 16 bits.
    pub exact: Option<Vec<f32>>,
}

impl Golden {
    pub fn read(file: &Path) -> Result<Golden, EngineError> {
        let bad = |reason: String| EngineError::Load { file: file.to_owned(), reason };
        let bytes = std::fs::read(file).map_err(|e| bad(format!("cannot be read: {e}")))?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|e| bad(format!("is no safetensors file: {e}")))?;
        let mut prompts = Vec::new();
        while tensors.tensor(&format!("ids_{}", prompts.len())).is_ok() {
            prompts.push(prompt(&tensors, prompts.len()).map_err(bad)?);
        }
        if let Some(name) =
            tensors.names().into_iter().find(|name| name.strip_prefix("ids_").is_some_and(|n| n.parse::<usize>().is_ok_and(|n| n >= prompts.len())))
        {
            return Err(bad(one_line(&format!("has tensor {name}, but no tensor ids_{}", prompts.len()))));
        }
        if prompts.is_empty() {
            return Err(bad("has no tensor ids_0: it is not a recording of the oracle".to_owned()));
        }
        Ok(Golden { file: file.to_owned(), prompts })
    }

    /// The recording must be of this model's vocabulary and within its context.
    pub fn fits(&self, model: &Model) -> Result<(), EngineError> {
        let bad = |reason: String| EngineError::Load { file: self.file.clone(), reason };
        if self.prompts.len() < 2 {
            return Err(bad("has no tensor ids_1: two prompts are needed, so that they can run in one batch".to_owned()));
        }
        for (i, p) in self.prompts.iter().enumerate() {
            if p.vocab != model.config.vocab {
                return Err(bad(format!("tensor logits_{i} has {} columns, config.json's vocab_size is {}", p.vocab, model.config.vocab)));
            }
            if model.dtype() != mlx_rs::Dtype::Float32 && p.exact.is_none() {
                let why = "a model of 16 bits is held to how far the oracle was from what its weights give in f32 (oracle/record.py)";
                return Err(bad(format!("has no tensor exact_{i}: {why}")));
            }
            if p.greedy.is_empty() {
                return Err(bad(format!("tensor greedy_{i} is empty: at least one id is needed")));
            }
            if let Some(id) = p.ids.iter().chain(&p.greedy).find(|id| **id as usize >= p.vocab) {
                return Err(bad(format!("tensor ids_{i} or greedy_{i} holds {id}, which is outside the vocabulary of {}", p.vocab)));
            }
            if p.ids.len() + p.greedy.len() > 512 {
                return Err(bad(format!("tensor ids_{i} and greedy_{i} have {} positions together: 512 are allowed", p.ids.len() + p.greedy.len())));
            }
        }
        Ok(())
    }
}

fn prompt(t: &SafeTensors, i: usize) -> Result<Prompt, String> {
    let ids = integers(t, &format!("ids_{i}"))?;
    let greedy = integers(t, &format!("greedy_{i}"))?;
    let name = format!("logits_{i}");
    let z = t.tensor(&name).map_err(|e| format!("tensor {name}: {e}"))?;
    let [positions, vocab] = z.shape()[..] else { return Err(format!("tensor {name} has shape {:?}: [positions, vocab] is needed", z.shape())) };
    if z.dtype() != Dtype::F32 || positions != ids.len() || ids.is_empty() {
        return Err(format!("tensor {name} is {:?} of shape {:?}: F32 of [{}, vocab] is needed", z.dtype(), z.shape(), ids.len()));
    }
    let floats = |bytes: &[u8]| bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let exact = match t.tensor(&format!("exact_{i}")) {
        Ok(e) if e.dtype() == Dtype::F32 && e.shape() == z.shape() => Some(floats(e.data())),
        Ok(e) => return Err(format!("tensor exact_{i} is {:?} of shape {:?}: F32 of {:?} is needed, as logits_{i}", e.dtype(), e.shape(), z.shape())),
        Err(_absent) => None,
    };
    Ok(Prompt { ids, logits: floats(z.data()), vocab, greedy, exact })
}

fn integers(t: &SafeTensors, name: &str) -> Result<Vec<u32>, String> {
    let v = t.tensor(name).map_err(|e| format!("tensor {name}: {e}"))?;
    let four = |b: &[u8]| i64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let all: Vec<i64> = match v.dtype() {
        Dtype::I32 | Dtype::U32 => v.data().chunks_exact(4).map(four).collect(),
        Dtype::I64 => v.data().chunks_exact(8).map(|b| i64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])).collect(),
        other => return Err(format!("tensor {name} is of type {other:?}: I32, U32 and I64 are allowed")),
    };
    all.into_iter().map(|x| u32::try_from(x).map_err(|_| format!("tensor {name} holds {x}, which is no token id"))).collect()
}

impl Prompt {
    /// Largest minus smallest recorded logit.
    pub fn spread(&self) -> f32 {
        let (lo, hi) = self.logits.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
        hi - lo
    }
}
