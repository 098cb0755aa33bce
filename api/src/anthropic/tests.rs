//! Bodies in, bodies and frames out, as Anthropic shapes them.

use super::events::Events;
use super::parts::{Head, error};
use super::{ask, messages};
use crate::ask::Wanted;
use crate::refusal::{Kind, Refusal};
use crate::voice::{Collected, End, Voice};
use actors::{Choice, Finish, Form, Grammar, ModelCard, Params, Piece, Prompt, Timings, Usage};
use serde_json::{Value, json};

fn card() -> ModelCard {
    ModelCard { id: "team/tiny-1".into(), created_unix_s: 1, context_length: 128 }
}

fn read(extra: Value) -> Result<Wanted, Refusal> {
    let mut body = json!({"model": "tiny-1", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    ask::read(body, &card())
}

fn kwargs(extra: Value) -> Value {
    let Prompt::Chat { kwargs, .. } = read(extra).unwrap().prompt else { panic!() };
    kwargs.into()
}

#[test]
fn bad_fields_are_named() {
    let tool = json!({"name": "f", "input_schema": {"type": "object"}});
    let user = |block: Value| json!({"messages": [{"role": "user", "content": [block]}]});
    let assistant = |block: Value| json!({"messages": [{"role": "assistant", "content": [block]}, {"role": "user", "content": "a"}]});
    let rows = [
        (json!({"max_tokens": null}), "max_tokens"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"temperature": 1.1}), "temperature"),
        (json!({"top_p": "a"}), "top_p"),
        (json!({"top_k": 0.5}), "top_k"),
        (json!({"stop_sequences": ["a", 1]}), "stop_sequences[1]"),
        (json!({"stop_sequences": vec!["a"; 17]}), "stop_sequences"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"metadata": {"user_id": 5}}), "metadata.user_id"),
        (json!({"system": 5}), "system"),
        (json!({"system": [{"type": "image"}]}), "system[0].type"),
        (json!({"system": [{"type": "text"}]}), "system[0].text"),
        (json!({"messages": null}), "messages"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}), "messages"),
        (json!({"messages": [{"role": "tool", "content": "a"}]}), "messages[0].role"),
        (json!({"messages": [{"content": "a"}]}), "messages[0].role"),
        (json!({"messages": [{"role": "user"}]}), "messages[0].content"),
        (json!({"messages": [{"role": "user", "content": {}}]}), "messages[0].content"),
        (user(json!("a")), "messages[0].content[0]"),
        (user(json!({"type": "image", "source": {}})), "messages[0].content[0].type"),
        (user(json!({"type": "tool_use", "id": "a", "name": "f", "input": {}})), "messages[0].content[0].type"),
        (user(json!({"type": "tool_result"})), "messages[0].content[0].tool_use_id"),
        (user(json!({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image"}]})), "messages[0].content[0].content[0].type"),
        (user(json!({"type": "tool_result", "tool_use_id": "a", "is_error": 1})), "messages[0].content[0].is_error"),
        (assistant(json!({"type": "tool_result", "tool_use_id": "a"})), "messages[0].content[0].type"),
        (assistant(json!({"type": "tool_use", "id": "a", "name": "f"})), "messages[0].content[0].input"),
        (assistant(json!({"type": "tool_use", "id": "a", "name": "f", "input": "{}"})), "messages[0].content[0].input"),
        (assistant(json!({"type": "thinking"})), "messages[0].content[0].thinking"),
        (json!({"tools": [{"name": "f"}]}), "tools[0].input_schema"),
        (json!({"tools": [{"input_schema": {}}]}), "tools[0].name"),
        (json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}), "tools[0].type"),
        (json!({"tools": [tool, tool]}), "tools[1].name"),
        (json!({"tools": [tool], "tool_choice": "auto"}), "tool_choice"),
        (json!({"tools": [tool], "tool_choice": {"type": "all"}}), "tool_choice.type"),
        (json!({"tools": [tool], "tool_choice": {}}), "tool_choice.type"),
        (json!({"tools": [tool], "tool_choice": {"type": "tool"}}), "tool_choice.name"),
        (json!({"tools": [tool], "tool_choice": {"type": "tool", "name": "g"}}), "tool_choice.name"),
        (json!({"tool_choice": {"type": "any"}}), "tool_choice"),
        (json!({"thinking": {"type": "maybe"}}), "thinking.type"),
        (json!({"thinking": {"type": "enabled", "budget_tokens": "all"}}), "thinking.budget_tokens"),
        (json!({"output_config": {"effort": "most"}}), "output_config.effort"),
        (json!({"output_config": {"format": {"type": "json"}}}), "output_config.format.type"),
        (json!({"tools": [tool], "output_config": {"format": {"type": "json_schema", "schema": {}}}}), "output_config.format"),
        (json!({"mcp_servers": [{}]}), "mcp_servers"),
        (json!({"container": "c"}), "container"),
    ];
    for (extra, param) in rows {
        let refusal = read(extra.clone()).expect_err(&extra.to_string());
        assert_eq!((refusal.kind.clone(), refusal.param.as_deref()), (Kind::Invalid, Some(param)), "{extra}: {}", refusal.message);
        assert!(refusal.message.contains(param), "{extra}: the message does not name the field: {}", refusal.message);
    }
    assert_eq!(read(json!({"model": "claude"})).unwrap_err().kind, Kind::NotFound);
}

#[test]
fn every_field_arrives() {
    let tool = json!({"type": "custom", "name": "f", "description": "d", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}});
    let wanted = read(json!({
        "temperature": 0.5, "top_p": 0.25, "top_k": 7, "stop_sequences": ["a", "b"], "stream": true, "metadata": {"user_id": "u"}, "service_tier": "auto",
        "tools": [tool], "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}, "thinking": {"type": "enabled", "budget_tokens": 1024},
    }))
    .unwrap();
    let stop = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(wanted.params, Params { max_tokens: Some(5), temperature: 0.5, top_p: 0.25, top_k: 7, stop, ..Params::default() });
    assert_eq!((wanted.n, wanted.stream, &wanted.form.choice, wanted.form.parallel), (1, true, &Choice::Auto, false));
    let Prompt::Chat { messages, kwargs: shown } = wanted.prompt else { panic!() };
    assert_eq!(messages, [json!({"role": "user", "content": "hi"})]);
    let tools = json!([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}]);
    assert_eq!(Value::Object(shown), json!({"enable_thinking": true, "tools": tools}));

    let tools = json!([{"name": "f", "input_schema": {}}]);
    let cut = read(json!({"tools": tools, "tool_choice": {"type": "any"}, "stop_sequences": ["a"]})).unwrap_err();
    assert_eq!(cut.param.as_deref(), Some("stop_sequences"), "a call that must be made is not cut short");
    let choices = [
        (json!(null), Choice::Auto),
        (json!({"type": "any"}), Choice::Required),
        (json!({"type": "auto"}), Choice::Auto),
        (json!({"type": "tool", "name": "f"}), Choice::Named("f".into())),
    ];
    for (choice, want) in choices {
        let form = read(json!({"tools": tools, "tool_choice": choice})).unwrap().form;
        assert_eq!((form.choice, form.parallel), (want, true));
    }
    assert_eq!(read(json!({"tools": tools, "tool_choice": {"type": "none"}})).unwrap().form, Form::default());
    assert_eq!(kwargs(json!({"thinking": {"type": "disabled"}})), json!({"enable_thinking": false}));
    assert_eq!(kwargs(json!({"output_config": {"effort": "low"}})), json!({"reasoning_effort": "low"}));
    let schema = json!({"output_config": {"format": {"type": "json_schema", "schema": {"type": "array"}}}});
    assert_eq!(read(schema).unwrap().form.grammar, Some(Grammar::Schema(json!({"type": "array"}))));
}

#[test]
fn what_the_template_sees() {
    let text = |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    let list = json!([
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "x"}, text("c"),
            {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}}, {"type": "tool_use", "id": "t2", "name": "g", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [text("r")]}, {"type": "tool_result", "tool_use_id": "t2", "content": "no", "is_error": true},
            text("d"),
        ]},
        {"role": "user", "content": "e"},
    ]);
    let seen = messages::read(Some(json!([text("s1"), text("s2")])), list.as_array().unwrap().clone()).unwrap();
    let call = |id: &str, name: &str, x: Value| json!({"id": id, "type": "function", "function": {"name": name, "arguments": x}});
    let want = json!([
        {"role": "system", "content": "s1\n\ns2"},
        {"role": "user", "content": "a\n\nb"},
        {"role": "assistant", "content": "c", "reasoning_content": "hm", "tool_calls": [call("t1", "f", json!({"x": 1})), call("t2", "g", json!({}))]},
        {"role": "tool", "content": "r", "name": "f", "tool_call_id": "t1"},
        {"role": "tool", "content": "Error: no", "name": "g", "tool_call_id": "t2"},
        {"role": "user", "content": "d\n\ne"},
    ]);
    assert_eq!(Value::Array(seen), want);
    assert_eq!(messages::read(Some(json!("")), vec![json!({"role": "user", "content": ""})]).unwrap(), [json!({"role": "user", "content": ""})]);
}

fn voice() -> Events {
    Events::new(Head { id: "msg_1".into(), model: "a/\"b\"".into(), stops: vec!["x".into(), "END".into()] })
}

fn end(finish: Finish, stop: Option<usize>) -> End {
    let usage = Usage { prompt_tokens: 7, cached_tokens: 4, completion_tokens: 2 };
    End { finish, stop, usage, reasoning_tokens: 1, timings: Timings::default() }
}

fn whole(pieces: &[Piece], end: End) -> Value {
    let said = dialects::whole(pieces.to_vec());
    serde_json::from_str(&voice().whole(vec![Collected { said, logprobs: vec![], end }])).unwrap()
}

/// Each frame's name and data, which must agree.
fn frames(pieces: &[Piece], end: End) -> Vec<Value> {
    let (mut voice, mut out) = (voice(), Vec::new());
    voice.begin(&mut out, 7);
    pieces.iter().for_each(|piece| voice.said(&mut out, 0, vec![piece.clone()], &[]));
    voice.done(&mut out, 0, &end);
    voice.close(&mut out, &[end]);
    let frame = |frame: &str| {
        let (name, data) = frame.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    };
    String::from_utf8(out).unwrap().trim_end().split("\n\n").map(frame).collect()
}

const USAGE: &str =
    r#"{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":2,"output_tokens_details":{"thinking_tokens":1}}"#;

#[test]
fn whole_answers() {
    let pieces = [
        Piece::Reasoning("hm".into()),
        Piece::Text("é\n".into()),
        Piece::Call { index: 0, name: "f".into() },
        Piece::Arguments { index: 0, text: r#"{"x":1}"#.into() },
    ];
    let mut body = whole(&pieces, end(Finish::Calls, None));
    assert!(body["content"][2]["id"].take().as_str().unwrap().starts_with("toolu_"));
    assert!(body.as_object_mut().unwrap().remove("coxswain").unwrap()["ttft_ms"].is_number());
    let want = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "a/\"b\"",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "é\n"},
            {"type": "tool_use", "id": null, "name": "f", "input": {"x": 1}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null, "usage": serde_json::from_str::<Value>(USAGE).unwrap(),
    });
    assert_eq!(body, want);
    let rows = [
        (Finish::Stop, None, json!(["end_turn", null])),
        (Finish::Stop, Some(1), json!(["stop_sequence", "END"])),
        (Finish::Length, None, json!(["max_tokens", null])),
    ];
    for (finish, stop, want) in rows {
        let body = whole(&[], end(finish, stop));
        assert_eq!((json!([body["stop_reason"], body["stop_sequence"]]), &body["content"]), (want, &json!([])));
    }
}

#[test]
fn blocks_of_a_stream_are_begun_grown_and_ended() {
    let part = |text: &str| Piece::Arguments { index: 0, text: text.into() };
    let pieces = [
        Piece::Reasoning("h".into()),
        Piece::Reasoning("m".into()),
        Piece::Text("a\"".into()),
        Piece::Call { index: 0, name: "f".into() },
        part("{\"x\""),
        part(":1}"),
        Piece::Call { index: 1, name: "g".into() },
        Piece::Broken { index: 1, raw: "<g".into() },
        Piece::Text("b".into()),
    ];
    let mut got = frames(&pieces, end(Finish::Stop, Some(1)));
    let calls = got.iter_mut().filter(|frame| frame["content_block"]["id"].is_string());
    assert_eq!(calls.map(|frame| frame["content_block"]["id"].take().to_string()).collect::<std::collections::BTreeSet<_>>().len(), 2);
    let begun = |index: u32, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let grown = |index: u32, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let ended = |index: u32| json!({"type": "content_block_stop", "index": index});
    let call = |name: &str| json!({"type": "tool_use", "id": null, "name": name, "input": {}});
    let want = [
        begun(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        grown(0, json!({"type": "thinking_delta", "thinking": "h"})),
        grown(0, json!({"type": "thinking_delta", "thinking": "m"})),
        grown(0, json!({"type": "signature_delta", "signature": ""})),
        ended(0),
        begun(1, json!({"type": "text", "text": ""})),
        grown(1, json!({"type": "text_delta", "text": "a\""})),
        ended(1),
        begun(2, call("f")),
        grown(2, json!({"type": "input_json_delta", "partial_json": "{\"x\""})),
        grown(2, json!({"type": "input_json_delta", "partial_json": ":1}"})),
        ended(2),
        begun(3, call("g")),
        ended(3),
        begun(4, json!({"type": "text", "text": ""})),
        grown(4, json!({"type": "text_delta", "text": "<g"})),
        grown(4, json!({"type": "text_delta", "text": "b"})),
        ended(4),
    ];
    let n = got.len();
    assert_eq!(&got[1..n - 2], &want);
    let message = &got[0]["message"];
    assert_eq!((&message["content"], &message["stop_reason"], &message["usage"]["input_tokens"]), (&json!([]), &json!(null), &json!(7)));
    assert_eq!(got[n - 2]["delta"], json!({"stop_reason": "stop_sequence", "stop_sequence": "END"}));
    assert_eq!(got[n - 2]["usage"].to_string(), USAGE);
    assert_eq!(got[n - 1], json!({"type": "message_stop"}));
}

#[test]
fn errors_and_pings() {
    let rows = [
        (Kind::Invalid, "invalid_request_error"),
        (Kind::NoKey, "authentication_error"),
        (Kind::Forbidden, "permission_error"),
        (Kind::NotFound, "not_found_error"),
        (Kind::TooLarge, "request_too_large"),
        (Kind::Busy { retry_after_s: 1 }, "rate_limit_error"),
        (Kind::Unavailable { retry_after_s: 1 }, "overloaded_error"),
        (Kind::Fault, "api_error"),
    ];
    for (kind, class) in rows {
        assert_eq!(error(&Refusal::new(kind, "m"), None), json!({"type": "error", "error": {"type": class, "message": "m"}}));
    }
    let mut out = Vec::new();
    voice().failed(&mut out, &Refusal::new(Kind::Fault, "m"));
    voice().ping(&mut out);
    let want = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"m\"}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n";
    assert_eq!(String::from_utf8(out).unwrap(), want);
}
