//! Bodies in, bodies and frames out, as OpenAI's Responses shape them.

use super::ask::{self, Asked};
use super::events::{Events, Head, Keep};
use super::store::{Store, Stored};
use crate::refusal::{Kind, Refusal};
use crate::voice::{Collected, End, Voice};
use actix_web::web::Data;
use actors::{Choice, Finish, Form, Grammar, ModelCard, Params, Piece, Prompt, Timings, TokenLogprob, Usage};
use serde_json::{Map, Value, json};
use std::sync::Arc;

fn card() -> ModelCard {
    ModelCard { id: "team/tiny-1".into(), created_unix_s: 1, context_length: 128 }
}

fn earlier(id: &str) -> Option<Arc<Stored>> {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": {}}});
    let messages = vec![json!({"role": "user", "content": "before"}), json!({"role": "assistant", "content": "", "tool_calls": [call]})];
    (id == "resp_1").then(|| Arc::new(Stored { body: "{}".into(), messages }))
}

fn read(extra: Value) -> Result<Asked, Refusal> {
    let mut body = json!({"model": "tiny-1", "input": "hi"});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    ask::read(body, &card(), earlier)
}

fn prompt(asked: Asked) -> (Value, Value) {
    let Prompt::Chat { messages, kwargs } = asked.wanted.prompt else { panic!() };
    (messages.into(), kwargs.into())
}

#[test]
fn bad_fields_are_named() {
    let tool = json!({"type": "function", "name": "f", "parameters": {"type": "object"}});
    let item = |item: Value| json!({"input": [item]});
    let rows = [
        (json!({"input": null}), "input"),
        (json!({"input": 5}), "input"),
        (json!({"input": []}), "input"),
        (item(json!("a")), "input[0]"),
        (item(json!({"type": "item_reference", "id": "x"})), "input[0].type"),
        (item(json!({"content": "a"})), "input[0].role"),
        (item(json!({"role": "tool", "content": "a"})), "input[0].role"),
        (item(json!({"role": "user"})), "input[0].content"),
        (item(json!({"role": "user", "content": [{"type": "input_image", "image_url": "x"}]})), "input[0].content[0].type"),
        (item(json!({"role": "user", "content": [{"type": "input_text"}]})), "input[0].content[0].text"),
        (item(json!({"type": "function_call", "name": "f", "arguments": "{}"})), "input[0].call_id"),
        (item(json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "[1]"})), "input[0].arguments"),
        (item(json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": {}})), "input[0].arguments"),
        (item(json!({"type": "function_call_output", "call_id": "c"})), "input[0].output"),
        (item(json!({"type": "function_call_output", "output": "x"})), "input[0].call_id"),
        (json!({"instructions": ["a"]}), "instructions"),
        (json!({"max_output_tokens": 0}), "max_output_tokens"),
        (json!({"temperature": 2.5}), "temperature"),
        (json!({"top_p": 0}), "top_p"),
        (json!({"stream": 1}), "stream"),
        (json!({"store": "no"}), "store"),
        (json!({"user": 1}), "user"),
        (json!({"metadata": {"a": 1}}), "metadata.a"),
        (json!({"truncation": "auto"}), "truncation"),
        (json!({"truncation": "all"}), "truncation"),
        (json!({"background": true}), "background"),
        (json!({"conversation": "c"}), "conversation"),
        (json!({"prompt": {"id": "p"}}), "prompt"),
        (json!({"include": ["file_search_call.results"]}), "include[0]"),
        (json!({"top_logprobs": 3}), "top_logprobs"),
        (json!({"include": ["message.output_text.logprobs"], "top_logprobs": 21}), "top_logprobs"),
        (json!({"reasoning": {"effort": "most"}}), "reasoning.effort"),
        (json!({"reasoning": {"effort": 1}}), "reasoning.effort"),
        (json!({"text": {"format": {"type": "yaml"}}}), "text.format.type"),
        (json!({"text": {"format": {"type": "json_schema", "schema": {}}}}), "text.format.name"),
        (json!({"text": {"format": {"type": "json_schema", "name": "n"}}}), "text.format.schema"),
        (json!({"text": {"format": {"type": "json_object"}}, "tools": [tool]}), "text.format"),
        (json!({"tools": [{"type": "web_search"}]}), "tools[0].type"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].name"),
        (json!({"tools": [{"type": "function", "name": "f", "parameters": "x"}]}), "tools[0].parameters"),
        (json!({"tools": [tool, tool]}), "tools[1].name"),
        (json!({"tools": [tool], "tool_choice": "any"}), "tool_choice"),
        (json!({"tools": [tool], "tool_choice": {"type": "web_search"}}), "tool_choice.type"),
        (json!({"tools": [tool], "tool_choice": {"type": "function", "name": "g"}}), "tool_choice.name"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"parallel_tool_calls": 1}), "parallel_tool_calls"),
    ];
    for (extra, param) in rows {
        let refusal = read(extra.clone()).expect_err(&extra.to_string());
        assert_eq!((refusal.kind.clone(), refusal.param.as_deref()), (Kind::Invalid, Some(param)), "{extra}: {}", refusal.message);
        assert!(refusal.message.contains(param), "{extra}: the message does not name the field: {}", refusal.message);
    }
    let missing = read(json!({"previous_response_id": "resp_2"})).unwrap_err();
    assert_eq!((missing.kind, missing.param.as_deref()), (Kind::NotFound, Some("previous_response_id")));
    let of_the_core = Refusal::field("max_tokens", "must be less").renamed(&super::NAMES);
    assert_eq!((of_the_core.param.as_deref(), of_the_core.message.as_str()), (Some("max_output_tokens"), "max_output_tokens must be less"));
}

#[test]
fn every_field_arrives_and_is_given_back() {
    let asked = read(json!({
        "instructions": "be brief", "max_output_tokens": 9, "temperature": 0.2, "top_p": 0.5, "stream": true, "user": "u", "metadata": {"a": "b"},
        "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}], "parallel_tool_calls": false,
        "tool_choice": {"type": "function", "name": "f"}, "reasoning": {"effort": "low", "summary": "auto"}, "truncation": "disabled", "store": false,
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"], "top_logprobs": 2, "service_tier": "auto",
    }))
    .unwrap();
    let want = Params { max_tokens: Some(9), temperature: 0.2, top_p: 0.5, logprobs: Some(2), ..Params::default() };
    assert_eq!((&asked.wanted.params, asked.wanted.stream, asked.wanted.n, &asked.messages), (&want, true, 1, &None));
    assert_eq!((&asked.wanted.form.choice, asked.wanted.form.parallel), (&Choice::Named("f".into()), false));
    let echo = json!({
        "instructions": "be brief", "previous_response_id": null, "user": "u", "metadata": {"a": "b"}, "reasoning": {"effort": "low", "summary": null},
        "text": {"format": {"type": "text"}},
        "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}],
        "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false, "max_output_tokens": 9, "temperature": 0.2, "top_p": 0.5,
        "top_logprobs": 2, "truncation": "disabled", "background": false, "store": false,
    });
    assert_eq!(Value::Object(asked.echo.clone()), echo);
    let (messages, kwargs) = prompt(asked);
    assert_eq!(messages, json!([{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]));
    let function = json!({"name": "f", "description": "d", "parameters": {"type": "object"}});
    assert_eq!(kwargs, json!({"reasoning_effort": "low", "tools": [{"type": "function", "function": function}]}));

    let plain = read(json!({})).unwrap();
    assert_eq!((&plain.wanted.params, &plain.wanted.form), (&Params::default(), &Form::default()));
    assert_eq!(
        (&plain.echo["temperature"], &plain.echo["tools"], &plain.echo["tool_choice"], &plain.echo["store"]),
        (&json!(1.0), &json!([]), &json!("auto"), &json!(true))
    );
    let schema = json!({"text": {"format": {"type": "json_schema", "name": "n", "strict": true, "schema": {"type": "array"}}}});
    assert_eq!(read(schema).unwrap().wanted.form.grammar, Some(Grammar::Schema(json!({"type": "array"}))));
}

#[test]
fn what_the_template_sees_and_what_is_remembered() {
    let items = json!([
        {"role": "developer", "content": "now"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "c", "annotations": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c2", "name": "g", "arguments": "{\"x\":1}"},
        {"type": "function_call_output", "call_id": "c2", "output": "r"},
    ]);
    let call = json!({"id": "c2", "type": "function", "function": {"name": "g", "arguments": {"x": 1}}});
    let rest = [
        json!({"role": "user", "content": "ab"}),
        json!({"role": "assistant", "content": "c", "tool_calls": [call]}),
        json!({"role": "tool", "content": "r", "name": "g", "tool_call_id": "c2"}),
    ];
    let asked = read(json!({"input": items, "instructions": "brief"})).unwrap();
    assert_eq!(asked.messages.as_deref().unwrap()[0], json!({"role": "system", "content": "now"}), "instructions are not remembered");
    assert_eq!(&asked.messages.as_deref().unwrap()[1..], &rest);
    let (seen, _) = prompt(asked);
    assert_eq!(seen[0], json!({"role": "system", "content": "brief\n\nnow"}));
    assert_eq!(seen.as_array().unwrap()[1..], rest);

    let result = json!({"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "r"}]});
    let asked = read(json!({"input": [result], "previous_response_id": "resp_1"})).unwrap();
    let (seen, _) = prompt(asked);
    assert_eq!((&seen[0]["content"], &seen[2]), (&json!("before"), &json!({"role": "tool", "content": "r", "name": "f", "tool_call_id": "c1"})));
}

fn end(finish: Finish) -> End {
    let usage = Usage { prompt_tokens: 7, cached_tokens: 4, completion_tokens: 3 };
    End { finish, stop: None, usage, reasoning_tokens: 1, timings: Timings::default() }
}

fn voice(keep: Option<Keep>) -> Events {
    let echo = Map::from_iter([("tools".to_owned(), json!([]))]);
    Events::new(Head { id: "resp_9".into(), created_unix_s: 5, model: "m".into(), echo }, keep)
}

/// Each frame's data; names agree, and numbers follow one another. Ids are checked to be told alike, and left out.
fn frames(pieces: &[Piece], end: End, keep: Option<Keep>) -> Vec<Value> {
    let (mut voice, mut out) = (voice(keep), Vec::new());
    voice.begin(&mut out, 7);
    pieces.iter().for_each(|piece| voice.said(&mut out, 0, vec![piece.clone()], &[]));
    voice.done(&mut out, 0, &end);
    voice.close(&mut out, &[end]);
    let frame = |(n, frame): (u64, &str)| {
        let (name, data) = frame.split_once('\n').unwrap();
        let mut data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        assert_eq!(data.as_object_mut().unwrap().remove("sequence_number"), Some(n.into()));
        data
    };
    (0..).zip(String::from_utf8(out).unwrap().trim_end().split("\n\n")).map(frame).collect()
}

fn said() -> [Piece; 6] {
    let part = |text: &str| Piece::Arguments { index: 0, text: text.into() };
    [Piece::Reasoning("hm".into()), Piece::Text("a\"".into()), Piece::Text("é".into()), Piece::Call { index: 0, name: "f".into() }, part("{\"x\""), part(":1}")]
}

#[test]
fn items_of_a_stream_are_begun_grown_and_ended() {
    let got = frames(&said(), end(Finish::Calls), None);
    let names: Vec<&str> = got.iter().map(|frame| frame["type"].as_str().unwrap().strip_prefix("response.").unwrap()).collect();
    let want = [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(names, want);
    assert_eq!((&got[0]["response"]["status"], &got[0]["response"]["output"], &got[0]["response"]["usage"]), (&json!("in_progress"), &json!([]), &json!(null)));
    let (message, text) = (&got[14]["item"], json!({"type": "output_text", "text": "a\"é", "annotations": [], "logprobs": []}));
    assert_eq!(message, &json!({"id": message["id"], "type": "message", "status": "completed", "role": "assistant", "content": [text]}));
    let id = &message["id"];
    let delta = json!({"type": "response.output_text.delta", "item_id": id, "output_index": 1, "content_index": 0, "delta": "é", "logprobs": []});
    assert_eq!(got[11], delta);
    assert_eq!(got[12], json!({"type": "response.output_text.done", "content_index": 0, "text": "a\"é", "logprobs": [], "item_id": id, "output_index": 1}));
    let call = &got[19]["item"];
    let whole = json!({"id": call["id"], "type": "function_call", "status": "completed", "call_id": call["call_id"], "name": "f", "arguments": "{\"x\":1}"});
    assert_eq!(call, &whole);
    assert_eq!((&got[16]["delta"], &got[16]["item_id"], &got[15]["item"]["arguments"]), (&json!("{\"x\""), &call["id"], &json!("")));
    let done = &got[20]["response"];
    assert_eq!(done["output"], json!([got[7]["item"], message, call]));
    let usage = json!({
        "input_tokens": 7, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0}, "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 10,
    });
    assert_eq!((&done["usage"], &done["tools"], &done["created_at"]), (&usage, &json!([]), &json!(5)));
}

/// The same with ids taken out.
fn bare(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, _| name != "id" && name != "call_id");
            fields.values_mut().for_each(|value| *value = bare(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = bare(item.take())),
        _ => {}
    }
    value
}

#[test]
fn a_whole_answer_is_what_a_stream_ends_with() {
    let told = TokenLogprob { bytes: b"a".to_vec(), logprob: -0.5, top: vec![] };
    for (finish, pieces, status) in [(Finish::Calls, &said()[..], "completed"), (Finish::Length, &said()[..3], "incomplete"), (Finish::Stop, &[], "completed")]
    {
        let stream = frames(pieces, end(finish), None).pop().unwrap()["response"].take();
        let collected = Collected { said: dialects::whole(pieces.to_vec()), logprobs: vec![], end: end(finish) };
        let whole: Value = serde_json::from_str(&voice(None).whole(vec![collected])).unwrap();
        assert_eq!(stream["status"], status);
        assert_eq!(bare(whole), bare(stream));
    }
    let cut = frames(&said()[..3], end(Finish::Length), None).pop().unwrap()["response"].take();
    assert_eq!((&cut["output"][1]["status"], &cut["incomplete_details"]), (&json!("incomplete"), &json!({"reason": "max_output_tokens"})));
    // The first token was reasoning's.
    let collected = Collected { said: dialects::whole(said()[..3].to_vec()), logprobs: vec![told.clone(), told], end: end(Finish::Stop) };
    let whole: Value = serde_json::from_str(&voice(None).whole(vec![collected])).unwrap();
    let logprobs = json!([{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}]);
    assert_eq!(whole["output"][1]["content"][0]["logprobs"], logprobs);
}

#[test]
fn what_was_said_is_kept_and_a_broken_call_is_text() {
    let store = Data::new(Store::default());
    let keep = || Some(Keep { store: store.clone(), key: 3, messages: vec![json!({"role": "user", "content": "q"})] });
    let done = frames(&said(), end(Finish::Calls), keep()).pop().unwrap()["response"].take();
    let stored = store.get(3, "resp_9").unwrap();
    assert_eq!(serde_json::from_str::<Value>(&stored.body).unwrap(), done);
    let call = json!({"id": done["output"][2]["call_id"], "type": "function", "function": {"name": "f", "arguments": {"x": 1}}});
    assert_eq!(stored.messages[1], json!({"role": "assistant", "content": "a\"é", "tool_calls": [call]}));

    let broken = [Piece::Call { index: 0, name: "f".into() }, Piece::Broken { index: 0, raw: "<f".into() }];
    let done = frames(&broken, end(Finish::Stop), keep()).pop().unwrap()["response"].take();
    assert_eq!((&done["output"][0]["status"], &done["output"][1]["content"][0]["text"]), (&json!("incomplete"), &json!("<f")));
    assert_eq!(store.get(3, "resp_9").unwrap().messages[1], json!({"role": "assistant", "content": "<f"}));
}

#[test]
fn a_stream_that_fails_says_so_and_is_not_kept() {
    let store = Data::new(Store::default());
    let (mut voice, mut out) = (voice(Some(Keep { store: store.clone(), key: 0, messages: vec![] })), Vec::new());
    voice.said(&mut out, 0, vec![Piece::Text("a".into())], &[]);
    voice.failed(&mut out, &Refusal::new(Kind::Fault, "m"));
    let last = String::from_utf8(out).unwrap().trim_end().rsplit("\n\n").next().unwrap().to_owned();
    let data: Value = serde_json::from_str(last.strip_prefix("event: response.failed\ndata: ").unwrap()).unwrap();
    assert_eq!((&data["response"]["status"], &data["response"]["error"]), (&json!("failed"), &json!({"code": "server_error", "message": "m"})));
    assert_eq!(data["response"]["output"][0]["status"], "incomplete");
    assert!(store.get(0, "resp_9").is_none());
}
