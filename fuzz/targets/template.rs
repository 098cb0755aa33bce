//! A chat template, and behind a line of three dashes the conversation that it is given: `{"messages": [...], "kwargs": {...}}`.
#![no_main]

use models::text::ChatTemplates;
use serde_json::{Map, Value, json};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (source, given) = text.split_once("\n---\n").unwrap_or((text, ""));
    let specials = json!({"bos_token": "<s>", "eos_token": "</s>"});
    let specials = specials.as_object().cloned().unwrap_or_default();
    let Ok(templates) = ChatTemplates::new(vec![("default".into(), source.into())], specials) else { return };
    let given: Value = serde_json::from_str(given).unwrap_or_default();
    let messages = given["messages"].as_array().cloned().unwrap_or_else(|| vec![json!({"role": "user", "content": "Hi \u{e9} \"x\"\n"})]);
    let kwargs = given["kwargs"].as_object().cloned().unwrap_or_else(Map::new);
    let _refused = templates.render(&messages, &kwargs);
});
