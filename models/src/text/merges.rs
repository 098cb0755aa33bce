//! Merges held against their vocabulary before the crate `tokenizers` builds a model of them.
//!
//! It copies what a merge makes into a buffer as long as the longest token, and cuts the prefix off a part without looking
//! whether it is there (`models/bpe/model.rs`): a merge that makes no token, or too short a part, would be a panic.

use serde_json::Value;

/// Every merge must make a token; `prefix` is what is cut off its right part.
pub(super) fn check<'a>(merges: impl Iterator<Item = (&'a str, &'a str)>, prefix: &str, is_token: impl Fn(&str) -> bool) -> Result<(), String> {
    let mut whole = String::new();
    for (a, b) in merges {
        let rest = b.get(prefix.len()..).ok_or_else(|| format!("{a:?} and {b:?} cannot be merged: the right part is shorter than the prefix {prefix:?}"))?;
        whole.clear();
        whole.push_str(a);
        whole.push_str(rest);
        if let Some(part) = [a, b, &whole].into_iter().find(|t| !is_token(t)) {
            return Err(format!("{a:?} and {b:?} cannot be merged: {part:?} is not in the vocabulary"));
        }
    }
    Ok(())
}

/// The same for `model` of a tokenizer.json. What is not of the form that has merges, the tokenizer's own reader judges.
pub(super) fn check_json(model: &Value) -> Result<(), String> {
    let (Some(vocab), Some(merges)) = (model["vocab"].as_object(), model["merges"].as_array()) else { return Ok(()) };
    let prefix = model["continuing_subword_prefix"].as_str().unwrap_or_default();
    let pair = |v: &'_ Value| -> Option<(String, String)> {
        if let Some(line) = v.as_str() {
            let (a, b) = line.split_once(' ')?;
            return Some((a.to_owned(), b.to_owned()));
        }
        Some((v[0].as_str()?.to_owned(), v[1].as_str()?.to_owned()))
    };
    let all: Vec<(String, String)> = merges.iter().filter_map(pair).collect();
    // Files begin older lists with their version.
    let all = all.iter().map(|(a, b)| (a.as_str(), b.as_str())).filter(|(a, _)| !a.starts_with("#version"));
    check(all, prefix, |t| vocab.contains_key(t)).map_err(|why| format!("model.merges: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merges_that_make_no_token_are_named() {
        let vocab = json!({"a": 0, "b": 1, "##b": 2, "ab": 3, "é": 4});
        let said = |prefix: Value, merge: Value| check_json(&json!({"vocab": vocab, "merges": [merge], "continuing_subword_prefix": prefix})).unwrap_err();
        assert_eq!(said(json!(null), json!(["a", "a"])), "model.merges: \"a\" and \"a\" cannot be merged: \"aa\" is not in the vocabulary");
        assert_eq!(said(json!(null), json!("a x")), "model.merges: \"a\" and \"x\" cannot be merged: \"x\" is not in the vocabulary");
        assert!(said(json!("##"), json!(["a", "b"])).ends_with("the right part is shorter than the prefix \"##\""));
        assert!(said(json!("#"), json!(["a", "é"])).ends_with("the right part is shorter than the prefix \"#\""));
        for (prefix, merge) in [(json!(null), json!(["a", "b"])), (json!("##"), json!("a ##b")), (json!(null), json!("#version: 0.2"))] {
            check_json(&json!({"vocab": vocab, "merges": [merge], "continuing_subword_prefix": prefix})).unwrap();
        }
        check_json(&json!({"type": "Unigram", "vocab": [["a", 0.0]]})).unwrap();
    }
}
