//! Anthropic's endpoints: whole and streamed, counted, and refused in their own form.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Client, Response, Server, post};
use serde_json::{Value, json};

fn body(extra: Value) -> Value {
    let mut body = json!({"model": "tiny-1", "max_tokens": 40, "temperature": 0, "system": "be brief", "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

/// The data of each event; its name says the same.
fn events(response: &Response) -> Vec<Value> {
    let event = |frame: &str| {
        let (name, data) = frame.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    };
    std::str::from_utf8(&response.body).unwrap().trim_end().split("\n\n").map(event).collect()
}

fn error(response: &Response) -> (u16, String) {
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("request-id"), response.header("x-request-id"));
    let body = response.json();
    assert_eq!((body["type"].as_str(), body["request_id"].as_str()), (Some("error"), response.header("request-id")), "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|m| !m.is_empty()), "{body}");
    (response.status, body["error"]["type"].as_str().unwrap().to_owned())
}

#[test]
fn a_message_is_the_same_streamed_and_whole() {
    let server = Server::start();
    let mut client = server.client();
    let whole = client.ask("/v1/messages", body(json!({})));
    assert_eq!(whole.status, 200, "{}", whole.json());
    let whole = whole.json();
    assert_eq!((&whole["type"], &whole["role"], &whole["model"]), (&json!("message"), &json!("assistant"), &json!("team/tiny-1")));
    assert!(whole["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!((&whole["stop_reason"], &whole["stop_sequence"]), (&json!("max_tokens"), &json!(null)));
    let text = whole["content"][0]["text"].as_str().unwrap();

    let stream = client.ask("/v1/messages", body(json!({"stream": true})));
    assert_eq!((stream.status, stream.header("content-type")), (200, Some("text/event-stream")));
    let events = events(&stream);
    let n = events.len();
    let names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((&names[..2], &names[n - 3..]), (&["message_start", "content_block_start"][..], &["content_block_stop", "message_delta", "message_stop"][..]));
    assert!(names[2..n - 3].iter().all(|name| *name == "content_block_delta"));
    let joined: String = events[2..n - 3].iter().map(|event| event["delta"]["text"].as_str().unwrap()).collect();
    assert_eq!(joined, text);
    assert_eq!(events[n - 2]["delta"], json!({"stop_reason": "max_tokens", "stop_sequence": null}));
    let of = |usage: &Value| usage["input_tokens"].as_u64().unwrap() + usage["cache_read_input_tokens"].as_u64().unwrap();
    assert_eq!((of(&events[0]["message"]["usage"]), of(&events[n - 2]["usage"])), (of(&whole["usage"]), of(&whole["usage"])));
    assert_eq!(events[n - 2]["usage"]["output_tokens"], 40);
    server.wait_idle();
}

#[test]
fn the_stop_sequence_that_ended_it_is_named() {
    let server = Server::start();
    let mut client = server.client();
    let all = client.ask("/v1/messages", body(json!({}))).json()["content"][0]["text"].as_str().unwrap().to_owned();
    let stop = &all[10..13];
    for stream in [false, true] {
        let response = client.ask("/v1/messages", body(json!({"stop_sequences": ["never to be seen", stop], "stream": stream})));
        let (end, text) = if stream {
            let events = events(&response);
            let text: String = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
            (events[events.len() - 2]["delta"].clone(), text)
        } else {
            let body = response.json();
            (json!({"stop_reason": body["stop_reason"], "stop_sequence": body["stop_sequence"]}), body["content"][0]["text"].as_str().unwrap().to_owned())
        };
        assert_eq!(end, json!({"stop_reason": "stop_sequence", "stop_sequence": stop}));
        assert_eq!(text, all[..all.find(stop).unwrap()]);
    }
}

#[test]
fn tokens_are_counted_as_they_are_charged() {
    let server = Server::start();
    let mut client = server.client();
    let counted = client.ask("/v1/messages/count_tokens", json!({"model": "tiny-1", "system": "be brief", "messages": [{"role": "user", "content": "hi"}]}));
    let usage = client.ask("/v1/messages", body(json!({}))).json()["usage"].clone();
    assert_eq!((counted.status, &counted.json()["input_tokens"]), (200, &usage["input_tokens"]));
    assert_eq!(counted.json(), json!({"input_tokens": "[system] be brief [user] hi [assistant]".len()}));
    // The prompt's full blocks are there the second time, and are told apart.
    let again = client.ask("/v1/messages", body(json!({}))).json()["usage"].clone();
    assert_eq!(again["input_tokens"].as_u64().unwrap() + again["cache_read_input_tokens"].as_u64().unwrap(), usage["input_tokens"].as_u64().unwrap());
    assert!(again["cache_read_input_tokens"].as_u64().unwrap() > 0 && again["cache_creation_input_tokens"] == 0, "{again}");
}

#[test]
fn refusals_have_anthropics_form() {
    let server = Server::start();
    let mut client = server.client();
    let mut ask = |path: &str, body: &str| {
        client.send(&post(path, body));
        error(&client.response())
    };
    let invalid = |status: u16| (status, "invalid_request_error".to_owned());
    assert_eq!(ask("/v1/messages", "{"), invalid(400));
    assert_eq!(ask("/v1/messages", "{}"), invalid(400));
    assert_eq!(ask("/v1/messages", &body(json!({"max_tokens": 2_000_000})).to_string()), invalid(400));
    assert_eq!(ask("/v1/messages", &body(json!({"model": "claude"})).to_string()), (404, "not_found_error".to_owned()));
    assert_eq!(ask("/v1/messages/count_tokens", r#"{"messages":[]}"#), invalid(400));
    assert_eq!(ask("/v1/messages/batches", "{}"), (404, "not_found_error".to_owned()));
    let mut client = server.client();
    let wrong = client.get("/v1/messages");
    assert_eq!((error(&wrong), wrong.header("allow")), (invalid(405), Some("POST")));
    client.send(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{}");
    assert_eq!(error(&client.response()), invalid(415));
    // Elsewhere the form is OpenAI's.
    assert_eq!(server.client().get("/v1/nothing").json()["error"]["code"], "no_such_route");
}

#[test]
fn a_key_goes_by_either_header_and_limits_say_when_to_come_back() {
    let (server, secrets) = common::with_keys(&[("team", "requests_per_minute = 1\n")]);
    let ask = |client: &mut Client, header: &str| {
        let body = body(json!({"max_tokens": 1})).to_string();
        let head = format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\n{header}\r\nanthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n");
        client.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
        client.response()
    };
    assert_eq!(error(&ask(&mut server.client(), "x-api-key: sk-wrong")), (401, "authentication_error".to_owned()));
    assert_eq!(error(&ask(&mut server.client(), "x: y")), (401, "authentication_error".to_owned()));
    assert_eq!(ask(&mut server.client(), &format!("x-api-key: {}", secrets[0])).status, 200);
    let busy = ask(&mut server.client(), &format!("authorization: Bearer {}", secrets[0]));
    assert_eq!(error(&busy), (429, "rate_limit_error".to_owned()));
    assert!(busy.header("retry-after").is_some());
    let open = Server::start();
    open.service.close();
    let refused = open.client().ask("/v1/messages", body(json!({})));
    assert_eq!(error(&refused), (503, "overloaded_error".to_owned()));
    assert!(refused.header("retry-after").is_some());
}
