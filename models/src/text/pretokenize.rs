//! How text is cut before byte-pair merges, by the name that GGUF files give it (`tokenizer.ggml.pre`).
//!
//! The expressions are those that the models' own tokenizer.json files publish.

use serde_json::{Value, json};

/// One way of cutting, in tokenizer.json's terms.
pub(super) struct Cut {
    pub(super) normalizer: Option<Value>,
    pub(super) pre_tokenizer: Value,
    /// A word that is in the vocabulary is taken whole, even if no merges lead to it.
    pub(super) ignore_merges: bool,
    /// Whether a BOS goes before a plain prompt when the file does not say.
    pub(super) add_bos: bool,
}

/// What messages say `tokenizer.ggml.pre` may be.
pub(super) const ALLOWED: &str = "smollm, llama-bpe, llama3, llama-v3, qwen2, gpt-2 or default";

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// None for a name that is not known: a wrong guess would give a model tokens that it was not trained on.
pub(super) fn by_name(pre: &str) -> Option<Cut> {
    let plain = |pre_tokenizer| Cut { normalizer: None, pre_tokenizer, ignore_merges: false, add_bos: false };
    Some(match pre {
        "smollm" => plain(sequence(json!({"type": "Digits", "individual_digits": true}), true)),
        "llama-bpe" | "llama3" | "llama-v3" => Cut { ignore_merges: true, add_bos: true, ..plain(sequence(split(LLAMA3), false)) },
        "qwen2" => Cut { normalizer: Some(json!({"type": "NFC"})), ..plain(sequence(split(QWEN2), false)) },
        "gpt-2" | "default" => plain(byte_level(true)),
        _ => return None,
    })
}

fn sequence(first: Value, use_regex: bool) -> Value {
    json!({"type": "Sequence", "pretokenizers": [first, byte_level(use_regex)]})
}

fn split(regex: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false})
}

/// `use_regex` cuts as GPT-2 does, on top of mapping bytes to characters.
pub(super) fn byte_level(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}
