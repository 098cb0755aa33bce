//! SIGTERM ends the server, and not before the rows that run have finished. Alone in its binary: a signal goes to the whole process.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Server, post};
use serde_json::json;

#[test]
fn sigterm_drains_and_then_ends() {
    let server = Server::until_signal();
    let mut client = server.client();
    client.send(&post("/v1/completions", &json!({"prompt": "a", "max_tokens": 5_000, "ignore_eos": true}).to_string()));
    server.wait("it runs", |s| s.running == 1 || s.tokens.generated == 5_000);
    // SAFETY: two calls without pointers; the signal's handler is in place, so that it does not end the process.
    assert_eq!(unsafe { libc::kill(libc::getpid(), libc::SIGTERM) }, 0);
    let answer = client.response();
    assert_eq!((answer.status, &answer.json()["usage"]["completion_tokens"]), (200, &json!(5_000)));
    server.ended();
}
