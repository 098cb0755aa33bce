//! An answer, as each family's reader takes it. The first byte says the family, its reasoning and where the prompt ended; the first line
//! is the JSON Schema of a tool's arguments. However the answer is cut, it must say the same.
#![no_main]

use dialects::{Dialect, Piece, Reader, Reasoning, Tool, whole};
use serde_json::Value;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Some(first) = text.chars().next() else { return };
    let (schema, answer) = text[first.len_utf8()..].split_once('\n').unwrap_or_default();
    let tool = |name: &str, parameters: Value| Tool { name: name.into(), description: None, parameters, strict: false };
    let tools = match serde_json::from_str(schema) {
        Ok(Value::Null) => Vec::new(),
        Ok(parameters) => vec![tool("get_weather", parameters), tool("f", Value::Object(Default::default()))],
        Err(_) => return,
    };
    let (choice, families) = (first as usize, Dialect::ALL.len());
    let dialect = Dialect::ALL[choice % families];
    let reasoning = Reasoning::ALL[choice / families % 4];
    let reader = || Reader::new(dialect, reasoning, &tools, choice / families / 4 % 2 == 1);
    let (mut once, mut by_characters) = (reader(), reader());
    let mut at_once = once.push(answer);
    at_once.extend(once.finish());
    let mut one_by_one: Vec<Piece> = answer.chars().flat_map(|c| by_characters.push(c.encode_utf8(&mut [0; 4]))).collect();
    one_by_one.extend(by_characters.finish());
    let (at_once, one_by_one) = (whole(at_once), whole(one_by_one));
    assert_eq!(at_once, one_by_one);
    for call in at_once.calls {
        assert!(matches!(serde_json::from_str(&call.arguments), Ok(Value::Object(_))), "{}", call.arguments);
    }
});
