//! Tokenizers built from GGUF metadata, and the detokenizer on top of them.

use crate::gguf::File;
use crate::gguf::writer::Writer;
use crate::text::{Text, pretokenize};
use proptest::prelude::*;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, PreTokenizerWrapper};

/// The default model, which `make model` fetches.
fn default_model() -> PathBuf {
    let home = std::env::var_os("COXSWAIN_HOME").filter(|h| !h.is_empty()).map(PathBuf::from);
    let home = home.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/coxswain"));
    let path = home.join("models/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(path.exists(), "{} is missing: `make model` fetches it", path.display());
    path
}

static SMOLLM2: LazyLock<Arc<Text>> = LazyLock::new(|| Arc::new(Text::from_gguf(&File::open(&default_model()).unwrap()).unwrap()));

static SENTENCE: LazyLock<Arc<Text>> = LazyLock::new(|| {
    let data = testdata(include_str!("../testdata/sentence.json"));
    Arc::new(from_writer(&sentence(&data)).unwrap())
});

fn testdata(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect()
}

fn from_writer(w: &Writer) -> Result<Text, String> {
    let (_dir, path) = w.save();
    Text::from_gguf(&File::open(&path).unwrap()).map_err(|e| e.to_string())
}

/// A vocabulary that SentencePiece trained.
fn sentence(data: &Value) -> Writer {
    let numbers = |key: &str| data[key].as_array().unwrap().iter().map(|v| v.as_f64().unwrap());
    Writer::default()
        .str("tokenizer.ggml.model", "llama")
        .strings("tokenizer.ggml.tokens", &strings(&data["tokens"]))
        .f32s("tokenizer.ggml.scores", &numbers("scores").map(|v| v as f32).collect::<Vec<_>>())
        .i32s("tokenizer.ggml.token_type", &numbers("types").map(|v| v as i32).collect::<Vec<_>>())
        .u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.eos_token_id", 2)
        .u32("tokenizer.ggml.unknown_token_id", 0)
}

/// All bytes as tokens and one merge, under a pre-tokenizer's name.
fn byte_level(pre: &str) -> Writer {
    let chars: Vec<String> = ('!'..='~').map(String::from).chain(["Ġ".into(), "ab".into(), "<s>".into()]).collect();
    let types: Vec<i32> = chars.iter().map(|c| if c == "<s>" { 3 } else { 1 }).collect();
    Writer::default()
        .str("tokenizer.ggml.model", "gpt2")
        .str("tokenizer.ggml.pre", pre)
        .strings("tokenizer.ggml.tokens", &chars.iter().map(String::as_str).collect::<Vec<_>>())
        .i32s("tokenizer.ggml.token_type", &types)
        .strings("tokenizer.ggml.merges", &["a b"])
        .u32("tokenizer.ggml.bos_token_id", 96)
}

#[test]
fn the_default_models_prompts_are_those_of_mlx_lm() {
    let cases = testdata(include_str!("../testdata/smollm2_prompts.json"));
    for case in cases.as_array().unwrap() {
        let messages = case["messages"].as_array().unwrap();
        let prompt = SMOLLM2.render_chat(messages, &Map::new()).unwrap();
        assert_eq!(SMOLLM2.encode(&prompt, false).unwrap(), ids(&case["prompt_ids"]), "{prompt}");
    }
    assert_eq!((SMOLLM2.stop_ids(), SMOLLM2.vocab_size()), ([2].as_slice(), 49152));
    assert!(SMOLLM2.is_special(2) && !SMOLLM2.is_special(17));
    assert_eq!(SMOLLM2.token_id("<|im_end|>"), Some(2));
    assert_eq!(SMOLLM2.token_bytes(2).unwrap(), b"<|im_end|>");
}

#[test]
fn a_directory_with_the_same_tokenizer_gives_the_same_ids() {
    for (text, config) in [(&*SMOLLM2, r#"{"eos_token": "<|im_end|>"}"#), (&*SENTENCE, r#"{"eos_token": "</s>"}"#)] {
        let dir = tempfile::tempdir().unwrap();
        text.tokenizer.save(dir.path().join("tokenizer.json"), false).unwrap();
        std::fs::write(dir.path().join("tokenizer_config.json"), config).unwrap();
        let again = Arc::new(Text::from_dir(dir.path()).unwrap());
        let sample = "<s>The cat — 日本語 👩 2024\n<|im_end|>";
        let ids = text.encode(sample, true).unwrap();
        assert_eq!(again.encode(sample, true).unwrap(), ids);
        assert_eq!(streamed(&again, &ids), text.decode(&ids));
        assert_eq!((again.stop_ids(), again.vocab_size()), (text.stop_ids(), text.vocab_size()));
    }
}

#[test]
fn multilingual_text_is_cut_and_put_together_as_the_reference_does() {
    for row in testdata(include_str!("../testdata/smollm2.json")).as_array().unwrap() {
        let want = ids(&row["ids"]);
        assert_eq!(SMOLLM2.encode(row["text"].as_str().unwrap(), true).unwrap(), want);
        assert_eq!(SMOLLM2.decode(&want), row["decoded"].as_str().unwrap());
    }
}

#[test]
fn sentence_piece_vocabularies_are_cut_as_sentence_piece_does() {
    let data = testdata(include_str!("../testdata/sentence.json"));
    for row in data["rows"].as_array().unwrap() {
        let text = row["text"].as_str().unwrap();
        let got = SENTENCE.encode(text, false).unwrap();
        assert_eq!(got, ids(&row["ids"]), "{text:?}");
        assert_eq!(SENTENCE.decode(&got), text);
    }
    let plain = SENTENCE.encode("cat", false).unwrap();
    assert_eq!(SENTENCE.encode("cat", true).unwrap(), [&[1], plain.as_slice()].concat());
    assert_eq!(SENTENCE.stop_ids(), [2]);
}

#[test]
fn merges_in_the_file_win_over_scores() {
    let w = |w: Writer| w.str("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", &["<unk>", "▁", "a", "b", "ab", "bb"]);
    let scores = |w: Writer, ab: f32| w.f32s("tokenizer.ggml.scores", &[0.0, -1.0, -1.0, -1.0, ab, -3.0]);
    let encode = |w: &Writer| from_writer(w).unwrap().encode("abb", false).unwrap();
    assert_eq!(encode(&scores(w(Writer::default()), -2.0)), [1, 4, 3]);
    assert_eq!(encode(&scores(w(Writer::default()), -4.0)), [1, 2, 5]);
    let merges = scores(w(Writer::default()), -4.0).strings("tokenizer.ggml.merges", &["a b", "b b"]);
    assert_eq!(encode(&merges), [1, 4, 3]);
    let spaceless = scores(w(Writer::default()), -4.0).bool("tokenizer.ggml.add_space_prefix", false);
    let text = from_writer(&spaceless).unwrap();
    assert_eq!(text.encode("abb a", false).unwrap(), [2, 5, 1, 2]);
    assert_eq!(text.decode(&[1, 2, 5]), " abb");
}

#[test]
fn words_are_cut_as_the_published_expressions_cut_them() {
    let data = testdata(include_str!("../testdata/cuts.json"));
    for (pre, rows) in data.as_object().unwrap() {
        let json = pretokenize::by_name(pre).unwrap().pre_tokenizer;
        let cutter: PreTokenizerWrapper = serde_json::from_value(json).unwrap();
        for row in rows.as_array().unwrap() {
            let mut text = PreTokenizedString::from(row["text"].as_str().unwrap());
            cutter.pre_tokenize(&mut text).unwrap();
            let splits = text.get_splits(OffsetReferential::Original, OffsetType::Byte);
            let words: Vec<&str> = splits.iter().map(|s| s.0).collect();
            assert_eq!(words, strings(&row["words"]), "{pre}");
        }
    }
}

#[test]
fn a_bos_is_added_where_the_model_wants_one() {
    let encode = |w: &Writer, special| from_writer(w).unwrap().encode("ab b", special).unwrap();
    let plain = [95, 94, 65];
    let with_bos = [96, 95, 94, 65];
    assert_eq!(encode(&byte_level("gpt-2"), true), plain);
    assert_eq!(encode(&byte_level("llama-bpe"), true), with_bos);
    assert_eq!(encode(&byte_level("llama-bpe"), false), plain);
    let key = "tokenizer.ggml.add_bos_token";
    assert_eq!(encode(&byte_level("qwen2").bool(key, true), true), with_bos);
    assert_eq!(encode(&byte_level("llama3").bool(key, false), true), plain);
}

#[test]
fn metadata_that_cannot_be_used_is_named() {
    let tokens = |t: &[&str]| Writer::default().strings("tokenizer.ggml.tokens", t);
    let model = |w: Writer, m: &str| w.str("tokenizer.ggml.model", m);
    for (writer, want) in [
        (Writer::default(), "tokenizer.ggml.tokens: not in the file"),
        (tokens(&["a"]), "tokenizer.ggml.model: not in the file"),
        (model(tokens(&["a"]), "bert"), "tokenizer.ggml.model: is \"bert\", must be gpt2 or llama"),
        (byte_level("tekken"), "tokenizer.ggml.pre: is \"tekken\", must be smollm, llama-bpe, llama3, llama-v3, qwen2, gpt-2 or default"),
        (model(tokens(&["a", "b", "a"]), "gpt2"), "tokenizer.ggml.tokens: tokens 0 and 2 are both \"a\""),
        (model(tokens(&["a"]), "gpt2"), "tokenizer.ggml.merges: not in the file"),
        (model(tokens(&["a", &"b".repeat(1025)]), "llama"), "tokenizer.ggml.tokens: token 1 has 1025 bytes, must have at most 1024"),
        (model(tokens(&["a"]), "gpt2").strings("tokenizer.ggml.merges", &["ab"]), "tokenizer.ggml.merges: \"ab\" must be two tokens"),
        (model(tokens(&["a"]), "gpt2").strings("tokenizer.ggml.merges", &["a b"]), "tokenizer.ggml.merges: "),
        (model(tokens(&["a", "b"]), "gpt2").strings("tokenizer.ggml.merges", &["a b"]), "merges: \"a\" and \"b\" cannot be merged: \"ab\" is not"),
        (model(tokens(&["a"]), "llama"), "tokenizer.ggml.scores: not in the file"),
        (model(tokens(&["a"]), "llama").f32s("tokenizer.ggml.scores", &[0.0, 1.0]), "tokenizer.ggml.scores: has 2 entries, must have 1"),
        (model(tokens(&["a"]), "gpt2").i32s("tokenizer.ggml.token_type", &[1, 1]), "tokenizer.ggml.token_type: has 2 entries, must have 1"),
        (byte_level("qwen2").u32("tokenizer.ggml.eos_token_id", 97), "eos_token_id: is 97, must be below 97"),
        (byte_level("qwen2").bool("tokenizer.ggml.add_eos_token", true), "eos_token_id: not in the file, and add_eos_token asks for it"),
        (byte_level("qwen2").str("tokenizer.chat_template", "{% if"), "tokenizer.chat_template: chat template"),
    ] {
        let error = from_writer(&writer).unwrap_err();
        assert!(error.contains(want), "{error} should contain {want}");
    }
}

#[test]
fn no_template_is_said_when_chat_is_asked_for() {
    let text = from_writer(&byte_level("qwen2")).unwrap();
    assert!(!text.has_chat_template());
    let error = text.render_chat(&[], &Map::new()).unwrap_err().to_string();
    assert!(error.contains("no chat template"), "{error}");
}

/// Joins all pushes; each must be whole, and none may come later than its character's last id.
fn streamed(text: &Arc<Text>, ids: &[u32]) -> String {
    let mut d = text.detokenizer();
    let pieces: Vec<String> = ids.iter().map(|&id| d.push(id)).collect();
    pieces.concat() + &d.finish()
}

#[test]
fn a_character_comes_with_its_last_byte_and_not_before() {
    for text in [&*SMOLLM2, &*SENTENCE] {
        for c in ["é", "한", "𝔘", "👩"] {
            let ids = text.encode(c, false).unwrap();
            let mut d = text.detokenizer();
            let (last, first) = ids.split_last().unwrap();
            assert!(first.iter().all(|&id| d.push(id).is_empty()), "{c} {ids:?}");
            assert_eq!(d.push(*last), c);
            assert_eq!(d.finish(), "");
        }
    }
}

#[test]
fn half_a_character_at_the_end_is_marked() {
    let ids = SMOLLM2.encode("a👩", false).unwrap();
    assert_eq!(streamed(&SMOLLM2, &ids[..ids.len() - 1]), "a\u{FFFD}");
    let ids = SENTENCE.encode("a👩", false).unwrap();
    assert_eq!(streamed(&SENTENCE, &ids[..ids.len() - 1]), "a\u{FFFD}\u{FFFD}\u{FFFD}");
}

#[test]
fn special_and_unknown_ids_are_nothing() {
    let mut ids = SENTENCE.encode("the cat", false).unwrap();
    ids.splice(1..1, [1, 2, 99_999]);
    ids.insert(0, 1);
    assert_eq!(streamed(&SENTENCE, &ids), "the cat");
    assert_eq!(streamed(&SMOLLM2, &[1, 2, 0, 49_152, u32::MAX]), "");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_ids_are_streamed_as_the_reference_decodes_them(ids in prop::collection::vec(0u32..49_160, 0..40)) {
        let want = SMOLLM2.tokenizer.decode(&ids, true).unwrap();
        prop_assert_eq!(streamed(&SMOLLM2, &ids), &want[..]);
        prop_assert_eq!(SMOLLM2.decode(&ids), want);
    }

    #[test]
    fn any_text_survives_the_way_there_and_back(text in "[a-zé한字👩\u{1F3FD} \n!▁0-9]{0,30}") {
        let ids = SMOLLM2.encode(&text, false).unwrap();
        prop_assert_eq!(streamed(&SMOLLM2, &ids), text);
    }

    #[test]
    fn any_text_survives_sentence_piece(text in "[a-zé한字👩 \n!0-9]{0,30}") {
        let ids = SENTENCE.encode(&text, false).unwrap();
        prop_assert_eq!(streamed(&SENTENCE, &ids), SENTENCE.tokenizer.decode(&ids, true).unwrap());
        prop_assert_eq!(streamed(&SENTENCE, &ids), text);
    }

    /// Ids without bytes: those in runs that are no UTF-8 are read differently, and their own test shows how.
    #[test]
    fn random_pieces_are_streamed_as_the_reference_decodes_them(ids in prop::collection::vec(prop_oneof![0u32..4, 261u32..530], 0..40)) {
        let want = SENTENCE.tokenizer.decode(&ids, true).unwrap();
        prop_assert_eq!(streamed(&SENTENCE, &ids), want);
    }

    #[test]
    fn any_ids_are_streamed_as_they_are_decoded(ids in prop::collection::vec(0u32..530, 0..40)) {
        prop_assert_eq!(streamed(&SENTENCE, &ids), SENTENCE.decode(&ids));
    }
}
