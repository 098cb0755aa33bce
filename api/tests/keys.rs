//! With a keys file: who is let in, to what, and how much of it; and that what is served is counted by key.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Client, ENDLESS, Response, with_keys};
use serde_json::json;

/// Sends a request with a secret, and leaves its answer to be read.
fn send(client: &mut Client, method: &str, path: &str, secret: &str, body: &str) {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {secret}\r\ncontent-type: application/json\r\n");
    client.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
}

fn ask(client: &mut Client, path: &str, secret: &str, body: &serde_json::Value) -> Response {
    send(client, "POST", path, secret, &body.to_string());
    client.response()
}

#[test]
fn whoever_uses_the_model_needs_a_key_and_pages_need_none() {
    let (server, secrets) = with_keys(&[("team", "")]);
    let mut client = server.client();
    for path in ["/v1/models", "/v1/models/x", "/tokenize", "/detokenize", "/v1/chat/completions", "/nowhere", "/%761/models", "//v1/models", "/stats/"] {
        let response = client.get(path);
        assert_eq!((response.status, response.header("www-authenticate")), (401, Some("Bearer")), "{path}");
        assert_eq!(response.json()["error"]["type"], "authentication_error", "{path}");
        assert!(response.header("x-request-id").is_some(), "{path}");
    }
    for path in ["/health", "/livez", "/readyz", "/metrics", "/stats", "/"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
    let wrong = ask(&mut server.client(), "/v1/completions", "sk-cox-wrong", &json!({"prompt": "a"}));
    assert_eq!(wrong.header("connection"), Some("close"), "its body was not read");
    assert_eq!((wrong.status, wrong.json()["error"]["code"].as_str()), (401, Some("invalid_api_key")));
    let page = String::from_utf8(client.get("/metrics").body).unwrap();
    assert!(page.contains("coxswain:admissions_refused_total{model_name=\"team/tiny-1\",reason=\"unauthorized\"} 10"), "{page}");
    assert_eq!(ask(&mut client, "/v1/completions", &secrets[0], &json!({"prompt": "a", "max_tokens": 1})).status, 200);
    assert_eq!(ask(&mut client, "/tokenize", &secrets[0], &json!({"prompt": "a"})).status, 200);
}

#[test]
fn what_a_key_is_served_is_counted_under_its_name() {
    let (server, secrets) = with_keys(&[("team", ""), ("other", "")]);
    let mut client = server.client();
    let answer = ask(&mut client, "/v1/completions", &secrets[0], &json!({"prompt": "abcdef", "max_tokens": 4})).json();
    assert_eq!(answer["usage"]["completion_tokens"], 4);
    let page = String::from_utf8(client.get("/metrics").body).unwrap();
    let has = |line: &str| assert!(page.lines().any(|l| l.replace("model_name=\"team/tiny-1\"", "") == line), "{line}\n{page}");
    has("coxswain:key_tokens_total{key=\"team\",kind=\"prompt\",} 6");
    has("coxswain:key_tokens_total{key=\"team\",kind=\"output\",} 4");
    has("coxswain:queue_wait_seconds_count{key=\"team\",} 1");
    assert!(!page.contains(&secrets[0]), "no secret is shown");
}

#[test]
fn a_key_has_no_more_rows_and_requests_than_it_may() {
    let (server, secrets) = with_keys(&[("rows", "max_rows = 1\n"), ("rate", "requests_per_minute = 1\n"), ("free", "")]);
    let mut client = server.client();
    let short = json!({"prompt": "a", "max_tokens": 1});
    let mut stream = server.client();
    send(&mut stream, "POST", "/v1/completions", &secrets[0], &json!({"prompt": "a", "max_tokens": ENDLESS, "stream": true}).to_string());
    assert_eq!(stream.head().status, 200);
    let refused = ask(&mut client, "/v1/completions", &secrets[0], &short);
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (429, true));
    let row = &client.get("/stats").json()["rows"][0];
    assert_eq!((row["key"].as_str(), row["max_tokens"].as_u64(), row["prefilled_tokens"].as_u64()), (Some("rows"), Some(ENDLESS.into()), Some(1)));
    assert_eq!(ask(&mut client, "/v1/completions", &secrets[2], &short).status, 200, "nobody else is kept out");
    drop(stream);
    server.wait_idle();
    assert_eq!(ask(&mut client, "/v1/completions", &secrets[0], &short).status, 200);

    assert_eq!(ask(&mut client, "/v1/completions", &secrets[1], &short).status, 200);
    let refused = ask(&mut client, "/v1/completions", &secrets[1], &short);
    assert_eq!((refused.status, refused.json()["error"]["code"].as_str()), (429, Some("rate_limit_exceeded")));
    let wait: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let page = String::from_utf8(client.get("/metrics").body).unwrap();
    assert!(page.contains("coxswain:admissions_refused_total{model_name=\"team/tiny-1\",reason=\"rate_limit\"} 2"), "{page}");
}

#[test]
fn only_an_admin_drains_and_flushes() {
    let (server, secrets) = with_keys(&[("team", ""), ("boss", "admin = true\n")]);
    let mut client = server.client();
    let none = json!({});
    assert_eq!(ask(&mut client, "/admin/drain", &secrets[0], &none).status, 403);
    assert_eq!(ask(&mut client, "/admin/flush", &secrets[0], &none).status, 403);
    assert_eq!(client.get("/readyz").status, 200);
    let cached = |client: &mut Client| {
        let again = json!({"prompt": "a prompt that is longer than a block, so that it is kept", "max_tokens": 1});
        ask(client, "/v1/completions", &secrets[1], &again).json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
    };
    assert_eq!(cached(&mut client), 0);
    assert!(cached(&mut client) > 0);
    assert_eq!(ask(&mut client, "/admin/flush", &secrets[1], &none).status, 202);
    assert_eq!(cached(&mut client), 0, "what was flushed is computed anew");
    assert_eq!(ask(&mut client, "/admin/drain", &secrets[1], &none).status, 202);
    assert_eq!(client.get("/readyz").status, 503);
    assert_eq!(ask(&mut client, "/v1/completions", &secrets[0], &json!({"prompt": "a"})).status, 503);
}
