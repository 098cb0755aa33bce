//! Model directories: what is read from which file, and what is refused.

use crate::text::{Text, TextError};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;

/// A word-level tokenizer is the smallest that works; `decoder` and `added` fill the rest of its file.
fn tokenizer(decoder: Value, added: Value) -> Value {
    json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": added, "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": decoder,
        "model": {"type": "WordLevel", "vocab": {"[PAD]": 0, "a": 1, "##b": 2, "c": 3, "</s>": 4}, "unk_token": "[PAD]"},
    })
}

fn eos() -> Value {
    json!([{"id": 4, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}])
}

fn load(files: &[(&str, Value)]) -> Result<Text, TextError> {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        // Plain strings are written as they are: a template, or JSON that is broken.
        let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    Text::from_dir(dir.path())
}

fn with(more: &[(&str, Value)]) -> Result<Text, TextError> {
    let mut files = vec![("tokenizer.json", tokenizer(Value::Null, eos()))];
    files.extend(more.iter().cloned());
    load(&files)
}

#[test]
fn prompts_are_neither_cut_nor_filled() {
    let text = with(&[]).unwrap();
    assert_eq!(text.encode("a c a c a", true).unwrap(), [1, 3, 1, 3, 1]);
    assert_eq!((text.vocab_size(), text.stop_ids().len(), text.has_chat_template()), (5, 0, false));
}

#[test]
fn ends_of_an_answer_come_from_every_file() {
    let text = with(&[
        ("tokenizer_config.json", json!({"eos_token": {"content": "</s>"}})),
        ("generation_config.json", json!({"eos_token_id": [2, 4]})),
        ("config.json", json!({"eos_token_id": 3, "text_config": {"eos_token_id": [1]}})),
    ]);
    assert_eq!(text.unwrap().stop_ids(), [1, 2, 3, 4]);
    let text = with(&[("special_tokens_map.json", json!({"eos_token": "</s>"})), ("config.json", json!({"eos_token_id": null}))]);
    assert_eq!(text.unwrap().stop_ids(), [4]);
}

#[test]
fn the_template_file_wins_over_the_configuration() {
    let config = ("tokenizer_config.json", json!({"bos_token": "<s>", "chat_template": "config {{ bos_token }}"}));
    let named = (
        "tokenizer_config.json",
        json!({"chat_template": [
            {"name": "default", "template": "named"}, {"name": "tool_use", "template": "tools"},
        ]}),
    );
    let own = ("chat_template.json", json!({"chat_template": "json"}));
    let jinja = ("chat_template.jinja", json!("jinja"));
    let render = |files: &[_]| with(files).unwrap().render_chat(&[], &Map::new()).unwrap();
    assert_eq!(render(std::slice::from_ref(&config)), "config <s>");
    assert_eq!(render(&[named]), "named");
    assert_eq!(render(&[config.clone(), own.clone()]), "json");
    assert_eq!(render(&[config, own, jinja]), "jinja");
}

#[test]
fn tokens_that_only_the_configuration_names_are_added() {
    let config = |id: &str| json!({"added_tokens_decoder": {"4": {"content": "</s>", "special": true}, id: {"content": "<x>", "special": true}}});
    let text = with(&[("tokenizer_config.json", config("5"))]).unwrap();
    assert_eq!(text.encode("a<x>", false).unwrap(), [1, 5]);
    assert_eq!(text.decode(&[1, 5, 4]), "a");
    let error = with(&[("tokenizer_config.json", config("7"))]).unwrap_err().to_string();
    assert!(error.ends_with("\"<x>\" has id 7, but tokenizer.json leaves it id 5"), "{error}");
}

#[test]
fn what_is_wrong_is_named_with_file_and_field() {
    let check = |files: &[(&str, Value)], want: &str| {
        let error = load(files).unwrap_err().to_string();
        assert!(error.contains(want), "{error} should contain {want}");
    };
    check(&[], "tokenizer.json: not found");
    check(&[("tokenizer.json", json!("{"))], "tokenizer.json: not a tokenizer");
    let check = |name: &str, content: Value, want: &str| {
        let error = with(&[(name, content)]).unwrap_err().to_string();
        assert!(error.contains(&format!("{name}: {want}")), "{error} should contain {want}");
    };
    let strip = |n: u32| json!({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "a", "start": 0, "stop": n}]});
    check("tokenizer.json", tokenizer(strip(1), eos()), "decoder: Strip with a stop above 0");
    assert_eq!(load(&[("tokenizer.json", tokenizer(strip(0), eos()))]).unwrap().decode(&[1]), "a");
    check("config.json", json!("["), "is not JSON");
    check("config.json", json!([]), "must be a JSON object");
    check("config.json", json!({"eos_token_id": -1}), "eos_token_id: must be an id");
    check("generation_config.json", json!({"eos_token_id": ["x"]}), "eos_token_id: must be an id");
    check("tokenizer_config.json", json!({"bos_token": 5}), "bos_token: must be a string");
    check("tokenizer_config.json", json!({"eos_token": "<e>"}), "eos_token: \"<e>\" is not in");
    check("tokenizer_config.json", json!({"chat_template": 5}), "chat_template: must be");
    check("tokenizer_config.json", json!({"chat_template": [{"name": "x"}]}), "chat_template: must be");
    check("tokenizer_config.json", json!({"chat_template": "{{"}), "chat template \"default\"");
    check("tokenizer_config.json", json!({"added_tokens_decoder": {"x": {}}}), "added_tokens_decoder: must map");
    check("chat_template.jinja", json!("{{"), "chat template \"default\"");
}

#[test]
fn an_id_that_no_vocabulary_has_is_refused() {
    for id in [1u32 << 24, u32::MAX] {
        let mut json = tokenizer(Value::Null, json!([]));
        json["model"]["vocab"]["far\noff"] = json!(id);
        let error = load(&[("tokenizer.json", json)]).unwrap_err().to_string();
        assert!(error.ends_with(&format!("tokenizer.json: token \"far\\noff\" has id {id}: at most 16777215 is served")), "{error}");
    }
}

/// Whatever stands in tokenizer.json, the answer is a tokenizer that can be used, or one line that names the file.
#[cfg(feature = "mlx")]
#[test]
fn a_damaged_tokenizer_is_one_line() {
    let decoders = json!([
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]);
    let words = tokenizer(json!({"type": "Sequence", "decoders": decoders}), eos());
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let mut pairs = tokenizer(byte_level.clone(), eos());
    pairs["pre_tokenizer"] = byte_level;
    pairs["model"] = json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
        "byte_fallback": false, "ignore_merges": false, "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3, "</s>": 4}, "merges": [["a", "b"]],
    });
    let (mut taken, mut refused) = (0, 0);
    for json in [words, pairs].iter().flat_map(crate::weights::tests::damaged) {
        match load(&[("tokenizer.json", json)]) {
            Ok(text) => {
                let text = Arc::new(text);
                // Whether it can encode is its own affair; that it says so is ours.
                let ids = text.encode("a ab c </s>", true).unwrap_or_else(|_| vec![0, 1, 2, 3, 4]);
                let mut d = text.detokenizer();
                let streamed: String = ids.iter().map(|&id| d.push(id)).collect();
                assert_eq!(streamed + &d.finish(), text.decode(&ids));
                taken += 1;
            }
            Err(e) => {
                let line = e.to_string();
                assert!(line.contains("tokenizer") && !line.contains('\n') && line.len() < 1000, "{line}");
                refused += 1;
            }
        }
    }
    assert!(taken > 100 && refused > 100, "{taken} taken, {refused} refused");
}

#[test]
fn replacing_does_not_multiply_the_vocabulary() {
    for (from, to) in [("a", "b".repeat(5)), ("", "b".to_owned())] {
        let replace = json!({"type": "Replace", "pattern": {"String": from}, "content": to});
        let text = load(&[("tokenizer.json", tokenizer(json!({"type": "Sequence", "decoders": [replace, {"type": "Fuse"}]}), eos()))]).unwrap();
        assert_eq!(text.token_bytes(1).unwrap(), b"a", "{from:?}");
        assert_eq!(text.decode(&[1, 3]), text.tokenizer.decode(&[1, 3], true).unwrap());
    }
}

/// None of the files may be something that is not a file: opening a pipe would wait for ever.
#[test]
fn only_plain_files_are_read() {
    use std::os::unix::ffi::OsStrExt;
    for name in [
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "generation_config.json",
        "config.json",
        "chat_template.jinja",
        "chat_template.json",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(name);
        std::fs::write(dir.path().join("tokenizer.json"), tokenizer(Value::Null, eos()).to_string()).unwrap();
        if name == "tokenizer.json" {
            std::fs::remove_file(&file).unwrap();
        }
        let path = std::ffi::CString::new(file.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path is a valid C string for the length of the call.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        let want = format!("{}: is not a plain file", file.display());
        assert_eq!(Text::from_dir(dir.path()).unwrap_err().to_string(), want);
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert_eq!(Text::from_dir(dir.path()).unwrap_err().to_string(), want);
    }
}

#[test]
fn a_file_without_end_is_not_read_to_its_end() {
    for (name, most) in [("tokenizer_config.json", 16 << 20), ("chat_template.jinja", 16 << 20)] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tokenizer.json"), tokenizer(Value::Null, eos()).to_string()).unwrap();
        std::fs::File::create(dir.path().join(name)).unwrap().set_len(1 << 40).unwrap();
        let error = Text::from_dir(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with(&format!("{name}: is too long: at most {most} bytes are read")), "{error}");
    }
}

#[test]
fn decoders_that_look_at_neighbours_are_streamed_too() {
    for (decoder, want) in [
        (json!({"type": "WordPiece", "prefix": "##", "cleanup": false}), "ab c ab"),
        (json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}), "a##bca##b"),
        (Value::Null, "a ##b c a ##b"),
    ] {
        let text = Arc::new(load(&[("tokenizer.json", tokenizer(decoder, eos()))]).unwrap());
        let ids = [1, 2, 4, 3, 1, 2, 4];
        let mut d = text.detokenizer();
        let streamed: String = ids.iter().map(|&id| d.push(id)).collect();
        assert_eq!(streamed + &d.finish(), want);
        assert_eq!(text.decode(&ids), want);
    }
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let error = Text::from_dir(Path::new("/nowhere/at/all")).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all/tokenizer.json: not found"), "{error}");
}

#[test]
fn a_post_processor_has_what_it_puts_around_a_prompt() {
    let template = |single: Value, tokens: Value| json!({"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": tokens});
    let (text, end) = (json!({"Sequence": {"id": "A", "type_id": 0}}), json!({"SpecialToken": {"id": "</s>", "type_id": 0}}));
    let other = json!({"Sequence": {"id": "B", "type_id": 0}});
    let token = |ids: Value| json!({"</s>": {"id": "</s>", "ids": ids, "tokens": ["</s>"]}});
    let load = |processor: Value| {
        let mut whole = tokenizer(Value::Null, eos());
        whole["post_processor"] = processor;
        load(&[("tokenizer.json", whole)])
    };
    let good = template(json!([text, end]), token(json!([4])));
    assert_eq!(load(good.clone()).unwrap().encode("a", true).unwrap(), [1, 4]);
    for (bad, said) in [
        (template(json!([text, end]), json!({})), "single has \"</s>\", which is not among special_tokens"),
        (template(json!([text, end]), token(json!([4, 4]))), "more or fewer ids than tokens"),
        (template(json!([text, other]), json!({})), "a Sequence that is not \"A\""),
    ] {
        for processor in [bad.clone(), json!({"type": "Sequence", "processors": [good, bad]})] {
            let error = load(processor).unwrap_err().to_string();
            assert!(error.contains("tokenizer.json: post_processor: ") && error.contains(said), "{error}");
        }
    }
}
