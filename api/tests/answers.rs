//! What clients that behave get.

#![allow(clippy::unwrap_used)]

mod common;

use common::Server;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn chat(extra: Value) -> Value {
    let mut body = json!({"model": "tiny-1", "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}], "max_tokens": 40});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn parsed(frames: &[String]) -> Vec<Value> {
    assert_eq!(frames.last().unwrap(), "[DONE]");
    frames[..frames.len() - 1].iter().map(|f| serde_json::from_str(f).unwrap()).collect()
}

#[test]
fn a_chat_is_the_same_streamed_and_whole() {
    let server = Server::start();
    let mut client = server.client();
    for sampled in [json!({"temperature": 0}), json!({"temperature": 1.0, "seed": 7, "ignore_eos": true})] {
        let whole = client.ask("/v1/chat/completions", chat(sampled.clone()));
        assert_eq!(whole.status, 200, "{}", whole.json());
        assert_eq!(whole.header("content-type"), Some("application/json"));
        let whole = whole.json();
        let text = whole["choices"][0]["message"]["content"].as_str().unwrap();

        let mut body = chat(sampled);
        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": true});
        let stream = client.ask("/v1/chat/completions", body);
        assert_eq!((stream.status, stream.header("content-type")), (200, Some("text/event-stream")));
        let chunks = parsed(&stream.frames());
        let (usage, chunks) = chunks.split_last().unwrap();
        let (last, chunks) = chunks.split_last().unwrap();
        assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
        let joined: String = chunks.iter().map(|c| c["choices"][0]["delta"]["content"].as_str().unwrap()).collect();
        assert_eq!(joined, text);
        assert_eq!(last["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"]);
        assert!(last["coxswain"]["ttft_ms"].as_f64().unwrap() > 0.0, "{last}");
        assert_eq!(usage["choices"], json!([]));
        for field in ["prompt_tokens", "completion_tokens", "total_tokens"] {
            assert_eq!(usage["usage"][field], whole["usage"][field], "{field}");
        }
        let ids: BTreeSet<&str> = chunks.iter().chain([last, usage]).map(|c| c["id"].as_str().unwrap()).collect();
        assert!(ids.len() == 1 && ids.iter().all(|id| id.starts_with("chatcmpl-") && *id != whole["id"]), "{ids:?}");
        for chunk in chunks.iter().chain([last, usage]) {
            assert_eq!((&chunk["object"], &chunk["model"]), (&json!("chat.completion.chunk"), &json!("team/tiny-1")));
        }
    }
    server.wait_idle();
}

#[test]
fn usage_and_seed_are_reported() {
    let server = Server::start();
    let mut client = server.client();
    let body = json!({"prompt": "x".repeat(100), "max_tokens": 10, "ignore_eos": true});
    let first = client.ask("/v1/completions", body.clone()).json();
    assert_eq!(first["usage"]["prompt_tokens"], 100);
    assert_eq!(first["usage"]["completion_tokens"], 10);
    assert_eq!(first["usage"]["total_tokens"], 110);
    assert_eq!(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(first["choices"][0]["finish_reason"], "length");
    assert_eq!(first["choices"][0]["text"].as_str().unwrap().chars().count(), 10);
    // The seed that was drawn gives the same text again, and the prompt's full blocks are there already.
    let mut again = body;
    again["seed"] = first["coxswain"]["seed"].clone();
    let second = client.ask("/v1/completions", again).json();
    assert_eq!(second["choices"][0]["text"], first["choices"][0]["text"]);
    assert_eq!(second["coxswain"]["seed"], first["coxswain"]["seed"]);
    assert_eq!(second["usage"]["prompt_tokens_details"]["cached_tokens"], 96);
}

#[test]
fn ids_and_text_are_the_same_prompt() {
    let server = Server::start();
    let mut client = server.client();
    let ids = client.ask("/tokenize", json!({"prompt": "two words"})).json();
    assert_eq!((&ids["count"], &ids["max_model_len"]), (&json!(9), &json!(1_000_000)));
    assert_eq!(client.ask("/detokenize", json!({"tokens": ids["tokens"]})).json(), json!({"prompt": "two words"}));
    let texts: BTreeSet<String> = [json!("two words"), json!(["two words"]), ids["tokens"].clone(), json!([ids["tokens"]])]
        .into_iter()
        .map(|prompt| client.ask("/v1/completions", json!({"prompt": prompt, "temperature": 0})).json()["choices"][0]["text"].to_string())
        .collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
}

#[test]
fn a_stop_string_ends_the_text_before_it() {
    let server = Server::start();
    let mut client = server.client();
    let body = json!({"prompt": "once", "temperature": 0, "max_tokens": 30, "ignore_eos": true});
    let all = client.ask("/v1/completions", body.clone()).json()["choices"][0]["text"].as_str().unwrap().to_owned();
    let stop = &all[10..13];
    let mut stopped = body;
    stopped["stop"] = json!([stop]);
    let choice = client.ask("/v1/completions", stopped).json()["choices"][0].clone();
    assert_eq!((choice["text"].as_str().unwrap(), choice["finish_reason"].as_str().unwrap()), (&all[..all.find(stop).unwrap()], "stop"));
    server.wait_idle();
}

#[test]
fn many_at_once_each_get_what_they_would_get_alone() {
    let server = Server::start();
    let body = |i: usize| {
        let stream = i.is_multiple_of(2);
        chat(json!({"messages": [{"role": "user", "content": format!("question {i}")}], "seed": i, "max_tokens": 60, "stream": stream, "ignore_eos": true}))
    };
    let text = |i: usize| {
        let response = server.client().ask("/v1/chat/completions", body(i));
        assert_eq!(response.status, 200);
        match i % 2 {
            0 => parsed(&response.frames()).iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect(),
            _ => response.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned(),
        }
    };
    let alone: Vec<String> = (0..24).map(text).collect();
    let together: Vec<String> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..24).map(|i| s.spawn(move || text(i))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(together, alone);
    assert_eq!(alone.iter().collect::<BTreeSet<_>>().len(), 24);
    server.wait_idle();
}

#[test]
fn request_ids_are_the_clients_if_sane() {
    let server = Server::start();
    let mut client = server.client();
    let long = "x".repeat(129);
    for (sent, taken) in [("trace-1", true), ("a b", false), (long.as_str(), false)] {
        client.send(format!("GET /livez HTTP/1.1\r\nhost: x\r\nx-request-id: {sent}\r\n\r\n").as_bytes());
        let response = client.response();
        let got = response.header("x-request-id").unwrap();
        assert_eq!(got == sent, taken, "{sent}");
        assert!(taken || got.len() == 32, "{got}");
    }
    // Refusals and unknown routes carry one too.
    for path in ["/nowhere", "/v1/models/none"] {
        assert!(client.get(path).header("x-request-id").is_some(), "{path}");
    }
}

#[test]
fn the_small_routes() {
    let server = Server::start();
    let mut client = server.client();
    let model = json!({"id": "team/tiny-1", "object": "model", "owned_by": "coxswain", "max_model_len": 1_000_000});
    let mut listed = client.get("/v1/models").json();
    assert!(listed["data"][0].as_object_mut().unwrap().remove("created").unwrap().as_u64().unwrap() > 0);
    assert_eq!(listed, json!({"object": "list", "data": [model]}));
    for name in ["team/tiny-1", "team%2Ftiny-1", "tiny-1", "default"] {
        let one = client.get(&format!("/v1/models/{name}"));
        assert_eq!((one.status, &one.json()["id"]), (200, &json!("team/tiny-1")), "{name}");
    }
    assert_eq!(client.get("/v1/models/other").json()["error"]["code"], "model_not_found");
    for path in ["/health", "/readyz", "/livez"] {
        assert_eq!(client.get(path).status, 200, "{path}");
        client.send(format!("HEAD {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
        assert_eq!(client.head().status, 200, "HEAD {path}");
    }
    client.ask("/v1/completions", json!({"prompt": "a", "max_tokens": 3, "ignore_eos": true}));
    // The snapshot is published after the turn that gave the answer away.
    server.wait("the answer is counted", |s| s.tokens.generated == 3 && s.running == 0);
    let stats = client.get("/stats").json();
    assert!(stats["kv"]["budget_bytes"].as_u64().unwrap() > 0, "{stats}");
    assert_eq!(stats["tokens"]["generated"], 3, "{stats}");
    let metrics = client.get("/metrics");
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let page = String::from_utf8(metrics.body).unwrap();
    let line = page.lines().find(|l| l.starts_with("vllm:generation_tokens_total{")).unwrap();
    assert!(line.ends_with(" 3") && line.contains("model_name=\"team/tiny-1\""), "{line}");
    assert_eq!(client.get("/v1/models").header("access-control-allow-origin"), None);
}
