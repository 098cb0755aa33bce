//! OpenAI's Responses: whole and streamed, gone on from, kept, shown and removed.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Client, Response, Server};
use serde_json::{Value, json};

fn body(extra: Value) -> Value {
    let mut body = json!({"model": "tiny-1", "input": "hi", "max_output_tokens": 20, "temperature": 0});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn events(response: &Response) -> Vec<Value> {
    let event = |frame: &str| serde_json::from_str(frame.split_once("\ndata: ").unwrap().1).unwrap();
    std::str::from_utf8(&response.body).unwrap().trim_end().split("\n\n").map(event).collect()
}

fn text(response: &Value) -> &str {
    response["output"][0]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"))
}

/// A request without a body, as whoever has `secret`.
fn bare(client: &mut Client, method: &str, path: &str, secret: &str) -> Response {
    client.send(format!("{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {secret}\r\ncontent-length: 0\r\n\r\n").as_bytes());
    client.response()
}

fn ask(client: &mut Client, secret: &str, body: &Value) -> Response {
    let body = body.to_string();
    let head = format!("POST /v1/responses HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {secret}\r\ncontent-type: application/json\r\n");
    client.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
    client.response()
}

#[test]
fn a_response_is_the_same_streamed_and_whole() {
    let server = Server::start();
    let mut client = server.client();
    for (extra, status) in [(json!({}), "incomplete"), (json!({"stop": "a", "max_output_tokens": 900}), "completed")] {
        let mut asked = body(extra);
        let whole = client.ask("/v1/responses", asked.clone());
        assert_eq!(whole.status, 200, "{}", whole.json());
        let whole = whole.json();
        assert_eq!((whole["object"].as_str(), whole["status"].as_str(), whole["model"].as_str()), (Some("response"), Some(status), Some("team/tiny-1")));
        asked["stream"] = true.into();
        let stream = client.ask("/v1/responses", asked);
        assert_eq!(stream.header("content-type"), Some("text/event-stream"));
        let events = events(&stream);
        assert!(events.iter().enumerate().all(|(n, event)| event["sequence_number"] == n));
        let joined: String = events.iter().filter(|e| e["type"] == "response.output_text.delta").map(|e| e["delta"].as_str().unwrap()).collect();
        assert_eq!(joined, text(&whole));
        let last = events.last().unwrap();
        assert_eq!(last["type"], format!("response.{status}"));
        let last = &last["response"];
        assert_eq!((text(last), &last["incomplete_details"]), (text(&whole), &whole["incomplete_details"]));
        for field in ["input_tokens", "output_tokens", "total_tokens"] {
            assert_eq!(last["usage"][field], whole["usage"][field], "{field}");
        }
        // What is kept is what was sent.
        for sent in [last, &whole] {
            assert_eq!(&client.get(&format!("/v1/responses/{}", sent["id"].as_str().unwrap())).json(), sent);
        }
    }
    server.wait_idle();
}

#[test]
fn a_chain_goes_on_from_what_was_said() {
    let server = Server::start();
    let mut client = server.client();
    let first = client.ask("/v1/responses", body(json!({"instructions": "be brief"}))).json();
    let chained = json!({"input": "more", "previous_response_id": first["id"], "max_output_tokens": 5});
    let second = client.ask("/v1/responses", body(chained.clone())).json();
    assert_eq!(second["previous_response_id"], first["id"]);
    let mut conversation = vec![json!({"role": "user", "content": "hi"}), json!({"role": "assistant", "content": text(&first)})];
    conversation.push(json!({"role": "user", "content": "more"}));
    let anew = client.ask("/v1/responses", body(json!({"input": conversation, "max_output_tokens": 5}))).json();
    assert_eq!((text(&second), &second["usage"]["input_tokens"]), (text(&anew), &anew["usage"]["input_tokens"]), "instructions are not carried over");
    // A third turn knows both, and an answer may be gone on from twice.
    let third = client.ask("/v1/responses", body(json!({"input": "and", "previous_response_id": second["id"], "store": false}))).json();
    assert!(third["usage"]["input_tokens"].as_u64() > second["usage"]["input_tokens"].as_u64());
    assert_eq!(text(&client.ask("/v1/responses", body(chained)).json()), text(&second));
    // What is not to be kept is not.
    let from_third = client.ask("/v1/responses", body(json!({"previous_response_id": third["id"]})));
    assert_eq!((from_third.status, from_third.json()["error"]["param"].as_str()), (404, Some("previous_response_id")));
    assert_eq!(client.get(&format!("/v1/responses/{}", third["id"].as_str().unwrap())).status, 404);
    server.wait_idle();
}

#[test]
fn what_is_kept_is_shown_and_removed() {
    let server = Server::start();
    let mut client = server.client();
    let first = client.ask("/v1/responses", body(json!({}))).json();
    let id = first["id"].as_str().unwrap();
    let path = format!("/v1/responses/{id}");
    let removed = bare(&mut client, "DELETE", &path, "");
    assert_eq!((removed.status, removed.json()), (200, json!({"id": id, "object": "response", "deleted": true})));
    for gone in [bare(&mut client, "DELETE", &path, ""), client.get(&path), client.get("/v1/responses/resp_none")] {
        assert_eq!((gone.status, gone.json()["error"]["code"].as_str()), (404, Some("response_not_found")));
    }
    let wrong = bare(&mut client, "PUT", &path, "");
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("GET, HEAD, DELETE")));
    assert_eq!(client.get("/v1/responses").header("allow"), Some("POST"));
}

#[test]
fn another_keys_answer_is_not_there() {
    let (server, secrets) = common::with_keys(&[("a", ""), ("b", "")]);
    let mut client = server.client();
    let id = ask(&mut client, &secrets[0], &body(json!({}))).json()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/responses/{id}");
    let next = body(json!({"previous_response_id": id}));
    assert_eq!(ask(&mut client, &secrets[1], &next).status, 404);
    assert_eq!((bare(&mut client, "GET", &path, &secrets[1]).status, bare(&mut client, "DELETE", &path, &secrets[1]).status), (404, 404));
    assert_eq!((bare(&mut client, "GET", &path, &secrets[0]).status, ask(&mut client, &secrets[0], &next).status), (200, 200));
}

#[test]
fn refusals_speak_of_this_endpoints_fields() {
    let server = Server::start();
    let mut client = server.client();
    let rows = [
        (json!({"max_output_tokens": 2_000_000}), "max_output_tokens"),
        (json!({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"not": {}}}}}), "text.format"),
        (json!({"input": [{"role": "user", "content": 5}]}), "input[0].content"),
        (json!({"stream": true, "tools": [{"type": "web_search"}]}), "tools[0].type"),
    ];
    for (extra, param) in rows {
        let refused = client.ask("/v1/responses", body(extra.clone()));
        let error = refused.json()["error"].clone();
        assert_eq!((refused.status, error["param"].as_str(), error["type"].as_str()), (400, Some(param), Some("invalid_request_error")), "{extra}: {error}");
    }
    server.wait_idle();
}

#[test]
fn log_probabilities_are_told_with_the_text() {
    let server = Server::start();
    let mut client = server.client();
    let mut asked = body(json!({"include": ["message.output_text.logprobs"], "top_logprobs": 2, "max_output_tokens": 4}));
    let whole = client.ask("/v1/responses", asked.clone()).json();
    let of_text = whole["output"][0]["content"][0]["logprobs"].as_array().unwrap();
    assert_eq!((of_text.len(), of_text[0]["top_logprobs"].as_array().unwrap().len()), (4, 2));
    asked["stream"] = true.into();
    let events = events(&client.ask("/v1/responses", asked));
    let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
    let told: Vec<Value> = deltas.flat_map(|event| event["logprobs"].as_array().unwrap().clone()).collect();
    assert_eq!(&told, of_text);
}
