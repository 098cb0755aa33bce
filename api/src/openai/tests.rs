//! Bodies and frames, as OpenAI shapes them.

use super::*;
use crate::voice::{Collected, End, Voice};
use actors::{Finish, Piece, Timings, TokenLogprob, Usage};
use dialects::Whole;
use serde_json::{Value, json};

fn head(shape: Shape) -> Head {
    Head { shape, id: "x-1".into(), created_unix_s: 5, model: "a/\"b\"".into() }
}

fn end(finish: Finish) -> End {
    let usage = Usage { prompt_tokens: 7, cached_tokens: 4, completion_tokens: 2 };
    let timings = Timings { queue_ms: 0.123456, prefill_ms: 1.0, decode_ms: 2.5, ttft_ms: 1.2, preemptions: 1, restarts: 0, seed: u64::MAX };
    End { finish, stop: None, usage, reasoning_tokens: 0, timings }
}

const COXSWAIN: &str = r#"{"queue_ms":0.123,"prefill_ms":1.0,"decode_ms":2.5,"ttft_ms":1.2,"preemptions":1,"restarts":0,"seed":18446744073709551615}"#;
const USAGE: &str = r#"{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}"#;

fn whole(shape: Shape, said: Whole, finish: Finish, logprobs: Option<Vec<TokenLogprob>>) -> Value {
    let mut voice = Chunks::new(head(shape), 1, false, logprobs.is_some());
    serde_json::from_str(&voice.whole(vec![Collected { said, logprobs: logprobs.unwrap_or_default(), end: end(finish) }])).unwrap()
}

fn text(text: &str) -> Whole {
    Whole { text: text.into(), ..Whole::default() }
}

/// A token of half a character, and two that were likely.
fn told() -> Vec<TokenLogprob> {
    vec![TokenLogprob { bytes: vec![0xc3], logprob: -0.5, top: vec![(vec![0xc3], -0.5), (b" b".to_vec(), f32::NEG_INFINITY)] }]
}

#[test]
fn whole_answers() {
    let tail = |v: &str| serde_json::from_str::<Value>(v).unwrap();
    let expect = json!({
        "id": "x-1", "object": "chat.completion", "created": 5, "model": "a/\"b\"",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "é\n", "refusal": null}, "logprobs": null, "finish_reason": "length"}],
        "usage": tail(USAGE), "coxswain": tail(COXSWAIN),
    });
    assert_eq!(whole(Shape::Chat, text("é\n"), Finish::Length, None), expect);
    let completion = whole(Shape::Text, text("a"), Finish::Stop, None);
    assert_eq!(completion["object"], "text_completion");
    assert_eq!(completion["choices"], json!([{"index": 0, "text": "a", "logprobs": null, "finish_reason": "stop"}]));
}

#[test]
fn calls_and_reasoning_of_a_whole_answer() {
    let calls = vec![dialects::Call { name: "f".into(), arguments: r#"{"x":1}"#.into() }];
    let mut body = whole(Shape::Chat, Whole { text: String::new(), reasoning: "hm".into(), calls }, Finish::Calls, None);
    let id = body["choices"][0]["message"]["tool_calls"][0]["id"].take();
    assert!(id.as_str().unwrap().starts_with("call_"));
    let call = json!({"id": null, "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}});
    let message = json!({"role": "assistant", "content": null, "reasoning_content": "hm", "refusal": null, "tool_calls": [call]});
    assert_eq!(body["choices"], json!([{"index": 0, "message": message, "logprobs": null, "finish_reason": "tool_calls"}]));
}

#[test]
fn logprobs_in_the_shape_of_each_endpoint() {
    let (half, b) = (json!({"token": "\u{fffd}", "logprob": -0.5, "bytes": [195]}), json!({"token": " b", "logprob": -9999.0, "bytes": [32, 98]}));
    let content = json!([{"token": "\u{fffd}", "logprob": -0.5, "bytes": [195], "top_logprobs": [half, b]}]);
    let chat = whole(Shape::Chat, text("a"), Finish::Stop, Some(told()));
    assert_eq!(chat["choices"][0]["logprobs"], json!({"content": content, "refusal": null}));
    let of =
        |offset: u32| json!({"tokens": ["\u{fffd}"], "token_logprobs": [-0.5], "top_logprobs": [{"\u{fffd}": -0.5, " b": -9999.0}], "text_offset": [offset]});
    assert_eq!(whole(Shape::Text, text("a"), Finish::Stop, Some(told()))["choices"][0]["logprobs"], of(0));
    // In a stream the offsets go on from piece to piece.
    let (mut voice, mut out) = (Chunks::new(head(Shape::Text), 1, false, true), Vec::new());
    (0..2).for_each(|_| voice.said(&mut out, 0, vec![Piece::Text("a".into())], &told()));
    let all = String::from_utf8(out).unwrap();
    let said: Vec<Value> =
        all.lines().filter_map(|line| Some(serde_json::from_str::<Value>(line.strip_prefix("data: ")?).unwrap()["choices"][0]["logprobs"].take())).collect();
    assert_eq!(said, [of(0), of(1)]);
}

fn frames(shape: Shape, include_usage: bool, pieces: Vec<Piece>, finish: Finish) -> String {
    let (mut voice, mut out) = (Chunks::new(head(shape), 1, include_usage, false), Vec::new());
    voice.begin(&mut out, 7);
    voice.said(&mut out, 0, pieces, &[]);
    voice.done(&mut out, 0, &end(finish));
    voice.close(&mut out, &[end(finish)]);
    String::from_utf8(out).unwrap()
}

#[test]
fn frames_of_a_chat() {
    let got = frames(Shape::Chat, true, vec![Piece::Text("a\"\n\u{1}é".into())], Finish::Length);
    let open = r#"data: {"id":"x-1","object":"chat.completion.chunk","created":5,"model":"a/\"b\"","choices":["#;
    let expect = [
        format!(r#"{open}{{"index":0,"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}],"usage":null}}"#),
        format!(r#"{open}{{"index":0,"delta":{{"content":"a\"\n\u0001é"}},"logprobs":null,"finish_reason":null}}],"usage":null}}"#),
        format!(r#"{open}{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"length"}}],"coxswain":{COXSWAIN},"usage":null}}"#),
        format!(r#"{open}],"usage":{USAGE}}}"#),
        "data: [DONE]".to_owned(),
    ];
    assert_eq!(got, expect.map(|frame| frame + "\n\n").concat());
}

#[test]
fn frames_of_a_text() {
    let got = frames(Shape::Text, false, vec![Piece::Text("a".into())], Finish::Stop);
    let open = r#"data: {"id":"x-1","object":"text_completion","created":5,"model":"a/\"b\"","choices":["#;
    let expect = [
        format!(r#"{open}{{"index":0,"text":"a","logprobs":null,"finish_reason":null}}]}}"#),
        format!(r#"{open}{{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}}],"coxswain":{COXSWAIN}}}"#),
        "data: [DONE]".to_owned(),
    ];
    assert_eq!(got, expect.map(|frame| frame + "\n\n").concat());
}

#[test]
fn calls_grow_in_a_stream() {
    let call = |index, name: &str| Piece::Call { index, name: name.into() };
    let part = |index, text: &str| Piece::Arguments { index, text: text.into() };
    let pieces =
        vec![Piece::Reasoning("hm".into()), call(0, "f"), part(0, "{\"x\""), part(0, ":1}"), call(1, "g"), Piece::Broken { index: 1, raw: "<g".into() }];
    let all = frames(Shape::Chat, false, pieces, Finish::Calls);
    let deltas = all.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let mut deltas: Vec<Value> = deltas.map(|mut chunk| chunk["choices"][0]["delta"].take()).collect();
    for delta in deltas.iter_mut().filter(|delta| delta["tool_calls"][0]["id"].is_string()) {
        assert!(delta["tool_calls"][0]["id"].take().as_str().unwrap().len() > 20);
    }
    let begun = |index: u32, name: &str| json!({"tool_calls": [{"index": index, "id": null, "type": "function", "function": {"name": name, "arguments": ""}}]});
    let grown = |index: u32, text: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]});
    let expect = [
        json!({"role": "assistant", "content": ""}),
        json!({"reasoning_content": "hm"}),
        begun(0, "f"),
        grown(0, "{\"x\""),
        grown(0, ":1}"),
        begun(1, "g"),
        json!({"content": "<g"}),
        json!({}),
    ];
    assert_eq!(deltas, expect);
    assert!(all.contains(r#""finish_reason":"tool_calls""#));
}
