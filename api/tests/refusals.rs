//! What clients that misbehave get: one error shape, never a 500, and the connection is as good as before.

#![allow(clippy::unwrap_used)]

mod common;

use actors::Options;
use common::{ENDLESS, PATIENCE, Response, Server, get, post};
use serde_json::{Value, json};
use std::time::Duration;

/// The error of a response, its shape checked.
fn error(response: &Response) -> Value {
    assert_eq!(response.header("content-type"), Some("application/json"));
    let body = response.json();
    let keys: Vec<&String> = body["error"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["message", "type", "param", "code"], "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|m| !m.is_empty()), "{body}");
    body["error"].clone()
}

#[test]
fn bad_bodies_are_400_and_name_the_field() {
    let server = Server::start();
    let mut client = server.client();
    let long = format!(r#"{{"prompt":"{}","max_tokens":1000000}}"#, "x".repeat(50));
    let deep = format!(r#"{{"prompt":{}"#, "[".repeat(200_000));
    let kwargs =
        format!(r#"{{"messages":[{{"role":"user","content":"a"}}],"max_tokens":1,"chat_template_kwargs":{{"a":{}}}}}"#, "[".repeat(100) + &"]".repeat(100));
    let chat = "/v1/chat/completions";
    let text = "/v1/completions";
    let rows = [
        (chat, "", 400, None),
        (chat, "null", 400, None),
        (chat, "[]", 400, None),
        (chat, "{", 400, None),
        (chat, "{}", 400, Some("messages")),
        (chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}", 400, None),
        (chat, r#"{"messages":[{"role":"user","content":"a"},{"role":"user","content":{}}]}"#, 400, Some("messages[1].content")),
        (chat, r#"{"messages":[{"role":"user","content":"a"}],"stop":["a",7]}"#, 400, Some("stop[1]")),
        (chat, r#"{"messages":[{"role":"user","content":"a"}],"temperature":1e999}"#, 400, None),
        (chat, r#"{"messages":[{"role":"user","content":"a"}],"max_tokens":99999999999999999999999999}"#, 400, Some("max_tokens")),
        (chat, r#"{"messages":[{"role":"user","content":"a"}],"model":"gpt-4o"}"#, 404, Some("model")),
        (chat, r#"{"messages":[{"role":"user","content":"a"}],"n":300}"#, 400, Some("n")),
        (chat, r#"{"messages":[{"role":"user","content":"a"}],"logit_bias":{"4000000000":1}}"#, 400, Some("logit_bias")),
        (
            chat,
            r#"{"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema","json_schema":{"schema":{"not":{}}}}}"#,
            400,
            Some("response_format"),
        ),
        (
            chat,
            r#"{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"}"#,
            400,
            Some("tools"),
        ),
        // Of a field given twice the last one counts.
        (chat, r#"{"messages":[{"role":"user","content":"a"}],"top_p":0.5,"top_p":7}"#, 400, Some("top_p")),
        (chat, r#"{"messages":[{"role":"user","content":"a"}],"top_p":7,"top_p":0.5,"max_tokens":1}"#, 200, None),
        (chat, kwargs.as_str(), 200, None),
        (text, deep.as_str(), 400, None),
        (text, "{}", 400, Some("prompt")),
        (text, r#"{"prompt":""}"#, 400, Some("prompt")),
        (text, r#"{"prompt":[]}"#, 400, Some("prompt")),
        (text, r#"{"prompt":[[]]}"#, 400, Some("prompt")),
        (text, r#"{"prompt":[5,4000000000]}"#, 400, Some("prompt")),
        (text, long.as_str(), 400, Some("max_tokens")),
        ("/tokenize", r#"{"prompt":7}"#, 400, Some("prompt")),
        ("/detokenize", r#"{"tokens":"abc"}"#, 400, Some("tokens")),
        ("/detokenize", r#"{"tokens":[1,-1]}"#, 400, Some("tokens[1]")),
        ("/detokenize", r#"{"tokens":[4000000000]}"#, 400, Some("tokens")),
    ];
    for (path, body, status, param) in rows {
        client.send(&post(path, body));
        let response = client.response();
        let shown = &body[..body.len().min(90)];
        assert_eq!(response.status, status, "{path} {shown}: {}", String::from_utf8_lossy(&response.body));
        if status != 200 {
            let error = error(&response);
            assert_eq!(error["param"].as_str(), param, "{path} {shown}: {error}");
            assert_eq!(error["type"], "invalid_request_error");
        }
    }
    let mut bytes = post(chat, "{\"messages\":\"\u{1}\u{2}\"}");
    let at = bytes.len() - 3;
    bytes[at] = 0xff;
    client.send(&bytes);
    assert_eq!(error(&client.response())["code"], "invalid_json");
    server.wait_idle();
}

#[test]
fn streams_are_refused_with_a_status_too() {
    let server = Server::start();
    let response = server.client().ask("/v1/completions", json!({"prompt": "a", "max_tokens": 2_000_000, "stream": true}));
    assert_eq!((response.status, error(&response)["code"].as_str()), (400, Some("context_length_exceeded")));
}

#[test]
fn routes_methods_and_types() {
    let server = Server::start();
    let mut client = server.client();
    for path in ["/nowhere", "/console/nothing.js", "/v1", "/v1/chat/completions/", "//v1/models"] {
        client.send(&get(path));
        let response = client.response();
        assert_eq!((response.status, error(&response)["code"].as_str()), (404, Some("no_such_route")), "{path}");
    }
    for (method, path, allow) in [
        ("GET", "/v1/chat/completions", "POST"),
        ("OPTIONS", "/v1/completions", "POST"),
        ("DELETE", "/v1/models", "GET, HEAD"),
        ("PUT", "/health", "GET, HEAD"),
    ] {
        client.send(format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").as_bytes());
        let response = client.response();
        assert_eq!((response.status, response.header("allow")), (405, Some(allow)), "{method} {path}");
        error(&response);
    }
    for header in
        ["content-type: application/x-www-form-urlencoded", "content-type: text/plain", "x: y", "content-type: application/json\r\ncontent-encoding: gzip"]
    {
        let mut client = server.client();
        client.send(format!("POST /v1/completions HTTP/1.1\r\nhost: x\r\n{header}\r\ncontent-length: 14\r\n\r\n{{\"prompt\":\"a\"}}").as_bytes());
        let response = client.response();
        assert_eq!(response.status, 415, "{header}");
        error(&response);
    }
    client.send(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: Application/JSON; charset=utf-8\r\ncontent-length: 29\r\n\r\n{\"prompt\":\"a\",\"max_tokens\":1}");
    assert_eq!(client.response().status, 200);
}

#[test]
fn a_body_over_the_limit_is_413_announced_or_not() {
    let server = Server::with(Options::default(), |o| o.body_limit_bytes = 1000);
    let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
    for bytes in [
        format!("{head}content-length: 1001\r\n\r\n"),
        format!("{head}content-length: 99999999999\r\n\r\n{{"),
        format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}"),
    ] {
        let mut client = server.client();
        client.send(bytes.as_bytes());
        let response = client.response();
        assert_eq!(response.status, 413, "{bytes}");
        assert!(error(&response)["message"].as_str().unwrap().contains("1000 bytes"));
    }
    // Exactly the limit is let in.
    let body = format!(r#"{{"prompt":"{}","max_tokens":1}}"#, "x".repeat(1000 - 28));
    let mut client = server.client();
    client.send(&post("/v1/completions", &body));
    assert_eq!((body.len(), client.response().status), (1000, 200));
}

#[test]
fn a_full_queue_is_429_and_says_when_to_come_back() {
    let server = Server::with(Options { batch: 1, queue: 1, ..Options::default() }, |_| {});
    let endless = json!({"prompt": "a", "max_tokens": ENDLESS, "ignore_eos": true});
    let mut running = server.client();
    running.send(&post("/v1/completions", &endless.to_string()));
    server.wait("one runs", |s| s.running == 1);
    let mut waiting = server.client();
    waiting.send(&post("/v1/completions", &endless.to_string()));
    server.wait("one waits", |s| s.waiting == 1);
    for stream in [false, true] {
        let refused = server.client().ask("/v1/completions", json!({"prompt": "a", "stream": stream}));
        assert_eq!((refused.status, error(&refused)["type"].as_str()), (429, Some("rate_limit_error")));
        assert!(refused.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    }
    drop((running, waiting));
    server.wait_idle();
    assert_eq!(server.client().ask("/v1/completions", json!({"prompt": "a"})).status, 200);
}

#[test]
fn a_drain_refuses_the_new_and_finishes_the_running() {
    let mut server = Server::with(Options::default(), |o| o.drain_timeout = PATIENCE);
    let long = |tokens: u32| post("/v1/completions", &json!({"prompt": "a", "max_tokens": tokens, "ignore_eos": true, "stream": true}).to_string());
    let mut running = server.client();
    running.send(&long(10_000));
    assert_eq!(running.head().status, 200);
    // Keeps the drain from ending before we have looked at it.
    let mut last = server.client();
    last.send(&long(ENDLESS));
    assert_eq!(last.head().status, 200);
    let mut other = server.client();
    assert_eq!(other.get("/readyz").status, 200);
    server.begin_stop();
    server.wait("it drains", |s| s.draining);
    let refused = other.ask("/v1/completions", json!({"prompt": "a"}));
    assert_eq!((refused.status, error(&refused)["type"].as_str()), (503, Some("server_error")));
    assert!(refused.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    assert_eq!((other.get("/readyz").status, other.get("/livez").status), (503, 200));
    let mut body = Vec::new();
    while running.chunk(&mut body) {}
    let frames = common::frames(&body);
    assert_eq!(frames.last().unwrap(), "[DONE]");
    assert!(frames[frames.len() - 2].contains(r#""finish_reason":"length""#), "{}", frames[frames.len() - 2]);
    drop(last);
}

#[test]
fn what_a_drain_cuts_is_told() {
    let mut server = Server::with(Options::default(), |o| o.drain_timeout = Duration::ZERO);
    let body = |stream: bool| post("/v1/completions", &json!({"prompt": "a", "max_tokens": ENDLESS, "ignore_eos": true, "stream": stream}).to_string());
    let mut streaming = server.client();
    streaming.send(&body(true));
    assert_eq!(streaming.head().status, 200);
    let mut whole = server.client();
    whole.send(&body(false));
    server.wait("both run", |s| s.running == 2);
    server.begin_stop();
    assert_eq!(whole.response().status, 503);
    let mut text = Vec::new();
    while streaming.chunk(&mut text) {}
    let last: Value = serde_json::from_str(common::frames(&text).last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "unavailable", "{last}");
}
