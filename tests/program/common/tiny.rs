//! The tiny models of `models/tests/tiny`, copied so that a test may change them, and a tokenizer for them.

use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tests/tiny");

/// Ids that the tiny models know.
const VOCAB: u32 = 512;

/// The folders' names, sorted.
pub(crate) fn names() -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(TINY).unwrap().map(Result::unwrap).filter(|e| e.path().is_dir()).map(|e| e.file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(!names.is_empty(), "{TINY} has no folders");
    names
}

/// A copy of one folder, under its own name.
pub(crate) fn copy(name: &str) -> (TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let to = root.path().join(name);
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(Path::new(TINY).join(name)).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
    }
    (root, to)
}

/// Writes the smallest tokenizer that serves: one piece an id, `<id>` in decimal, so that an answer's text tells its ids.
pub(crate) fn tokenizer(dir: &Path) {
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let vocab: Map<String, Value> = (0..VOCAB).map(|id| (format!("<{id}>"), json!(id))).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null, "added_tokens": [],
        "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": [],
        },
    });
    std::fs::write(dir.join("tokenizer.json"), tokenizer.to_string()).unwrap();
}
