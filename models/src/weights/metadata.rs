//! A GGUF file's metadata, put as the config.json that it stands for, so that one set of checks serves both.
//!
//! Keys and what they mean when they are missing: llama.cpp's `src/llama-model.cpp` (`load_hparams`).

use super::gguf::failed;
use crate::config::Config;
use crate::engine::EngineError;
use crate::gguf::{File, GgufError};
use serde_json::{Map, Value, json};

/// config.json's fields and the keys that fill them, for messages that name what the file has. A name that holds another is first.
const FIELDS: [(&str, &str); 14] = [
    ("rope_scaling.original_max_position_embeddings", "llama.rope.scaling.original_context_length"),
    ("rope_scaling.", "llama.rope.scaling."),
    ("max_position_embeddings", "llama.context_length"),
    ("num_hidden_layers", "llama.block_count"),
    ("num_attention_heads", "llama.attention.head_count"),
    ("num_key_value_heads", "llama.attention.head_count_kv"),
    ("intermediate_size", "llama.feed_forward_length"),
    ("hidden_size", "llama.embedding_length"),
    ("rms_norm_eps", "llama.attention.layer_norm_rms_epsilon"),
    ("rope_theta", "llama.rope.freq_base"),
    ("head_dim", "llama.attention.key_length"),
    ("vocab_size", "token_embd.weight's rows"),
    ("attention_bias", "blk.0.attn_q.bias"),
    ("mlp_bias", "blk.0.ffn_up.bias"),
];

const EXPERTS: &str = "llama.expert_count";
const TYPE: &str = "llama.rope.scaling.type";
const ORIGINAL: &str = "llama.rope.scaling.original_context_length";
const TOKENS: &str = "tokenizer.ggml.tokens";
const ROTATED: &str = "llama.rope.dimension_count";

pub(super) fn config(file: &File) -> Result<Config, EngineError> {
    let map = fields(file).map_err(|e| failed(&e, file.path()))?;
    let config = Config::from_json(file.path(), &map).map_err(in_its_own_words)?;
    agrees(file, &config).map_err(|e| failed(&e, file.path()))?;
    Ok(config)
}

fn fields(file: &File) -> Result<Map<String, Value>, GgufError> {
    let arch = file.str("general.architecture")?;
    if arch != "llama" {
        return Err(file.key_error("general.architecture", format!("\"{arch}\" is an unknown architecture; served from GGUF is llama")));
    }
    if let Some(parts) = file.u64_opt("split.count")?.filter(|n| *n > 1) {
        return Err(file.key_error("split.count", format!("is {parts}: a model in one file is served, not one in parts")));
    }
    let need = |key: &str| file.u64(&format!("llama.{key}"));
    let (heads, hidden) = (need("attention.head_count")?, need("embedding_length")?);
    let mut map = Map::new();
    let mut put = |k: &str, v: Value| map.insert(k.to_owned(), v);
    put("model_type", json!("llama"));
    put("hidden_size", json!(hidden));
    put("num_hidden_layers", json!(need("block_count")?));
    put("intermediate_size", json!(need("feed_forward_length")?));
    put("num_attention_heads", json!(heads));
    put("num_key_value_heads", json!(file.u64_opt("llama.attention.head_count_kv")?.unwrap_or(heads)));
    put("rms_norm_eps", json!(finite(file, "llama.attention.layer_norm_rms_epsilon", Some(file.f32("llama.attention.layer_norm_rms_epsilon")?))?));
    put("vocab_size", json!(file.tensor("token_embd.weight")?.rows()));
    put("max_position_embeddings", json!(need("context_length")?));
    put("tie_word_embeddings", json!(file.find("output.weight").is_none()));
    put("attention_bias", json!(file.find("blk.0.attn_q.bias").is_some()));
    put("mlp_bias", json!(file.find("blk.0.ffn_up.bias").is_some()));
    put("rope_theta", json!(number(file, "llama.rope.freq_base")?));
    put("head_dim", json!(file.u64_opt("llama.attention.key_length")?));
    put("rope_scaling", scaling(file)?);
    Ok(map)
}

fn number(file: &File, key: &str) -> Result<Option<f32>, GgufError> {
    finite(file, key, file.f32_opt(key)?)
}

/// JSON has no word for these, so that they would pass for a field that is not there.
fn finite(file: &File, key: &str, value: Option<f32>) -> Result<Option<f32>, GgufError> {
    match value {
        Some(x) if !x.is_finite() => Err(file.key_error(key, format!("is {x}, must be a finite number"))),
        value => Ok(value),
    }
}

/// A factor without a type means linear, and older files give the factor under another key.
fn scaling(file: &File) -> Result<Value, GgufError> {
    let factor = match number(file, "llama.rope.scaling.factor")? {
        None => number(file, "llama.rope.scale_linear")?,
        factor => factor,
    };
    // Converters write 0 for no scaling.
    let factor = factor.filter(|f| *f != 0.0);
    let kind = match file.str_opt(TYPE)? {
        None if factor.is_some() => "linear",
        None | Some("none") => return Ok(Value::Null),
        Some(kind) => kind,
    };
    Ok(json!({"rope_type": kind, "factor": factor, "original_max_position_embeddings": file.u64_opt(ORIGINAL)?}))
}

/// What config.json has no field for must be as if it were not there.
fn agrees(file: &File, config: &Config) -> Result<(), GgufError> {
    if let Some(n) = file.u64_opt(ROTATED)?.filter(|n| *n != config.head_dim as u64) {
        return Err(file.key_error(ROTATED, format!("is {n}: a whole head is rotated here, {} elements", config.head_dim)));
    }
    if let Some(n) = file.u64_opt(EXPERTS)?.filter(|n| *n > 0) {
        return Err(file.key_error(EXPERTS, format!("is {n}: models with experts are not served")));
    }
    let tokens = file.strings_opt(TOKENS)?.map_or(0, <[String]>::len);
    if tokens > config.vocab {
        return Err(file.key_error(TOKENS, format!("has {tokens} entries, but token_embd.weight has {} rows", config.vocab)));
    }
    Ok(())
}

fn in_its_own_words(e: EngineError) -> EngineError {
    match e {
        EngineError::Load { file, reason } => {
            let reason = FIELDS.iter().fold(reason, |text, (field, key)| text.replace(field, key));
            EngineError::Load { file, reason }
        }
        other => other,
    }
}
