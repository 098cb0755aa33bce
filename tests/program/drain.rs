//! SIGTERM: new requests are refused, running answers finish, up to a time; a second one ends at once.

use crate::common::{Reply, Server, chat, send, signal};
use serde_json::{Value, json};
use std::io;
use std::time::{Duration, Instant};

const CHAT: &str = "/v1/chat/completions";
/// An end that is not waited for: a step in flight, and the flushing of what is written.
const AT_ONCE: Duration = Duration::from_secs(20);

fn stream(max_tokens: u32) -> Value {
    chat("Tell me about the tides.", json!({"max_tokens": max_tokens, "ignore_eos": true, "stream": true}))
}

#[test]
fn a_running_stream_finishes_while_new_requests_are_refused() {
    let mut server = Server::of_default_model(&["--kv-budget", "200MB"]);
    let mut running = server.post(CHAT, &stream(40));
    running.texts(1);
    signal(server.pid());
    server.logged("draining");
    let mut refused = server.post(CHAT, &stream(1));
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some_and(|s| s.parse::<u32>().is_ok_and(|s| s > 0)));
    let error = refused.json();
    assert!(error["error"]["message"].as_str().is_some_and(|m| m.contains("shutting down")), "{error}");
    assert_eq!(server.get("/readyz").status, 503);
    assert_eq!(server.get("/livez").status, 200);

    let (_, finish, done) = running.rest();
    assert_eq!((finish.as_str(), done), ("length", true));
    assert_eq!(server.exit().code(), Some(0));
    let closed = send(server.addr, "GET", "/livez", None).err().map(|e| e.kind());
    assert_eq!(closed, Some(io::ErrorKind::ConnectionRefused));
}

/// The service says that it is up when it is, also to whoever stops it: a signal on the very first chance is a drain, and what the
/// model's thread is doing then does not disturb the end.
#[test]
fn a_signal_right_after_the_start_is_an_orderly_end() {
    for _ in 0..5 {
        let mut server = Server::of_default_model(&["--kv-budget", "32MB"]);
        signal(server.pid());
        assert_eq!(server.exit().code(), Some(0));
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut server = Server::of_default_model(&["--kv-budget", "200MB"]);
    let mut running = server.post(CHAT, &stream(4000));
    running.texts(1);
    signal(server.pid());
    server.logged("draining");
    running.texts(1);
    signal(server.pid());
    let since = Instant::now();
    assert_eq!(last_error(&mut running), "unavailable");
    let status = server.exit();
    // The answer would take minutes.
    assert!(since.elapsed() < AT_ONCE, "{:?}", since.elapsed());
    assert_eq!(status.code(), Some(0));
}

/// Reads a stream to its end, which is an error event, and gives that error's code.
fn last_error(running: &mut Reply) -> String {
    let mut last = None;
    while let Some(event) = running.event().unwrap() {
        last = Some(event);
    }
    let last: Value = serde_json::from_str(&last.unwrap()).unwrap();
    last["error"]["code"].as_str().unwrap_or_else(|| panic!("{last}")).to_owned()
}

#[test]
fn what_outlives_the_drain_is_told_so() {
    let mut server = Server::of_default_model(&["--kv-budget", "200MB", "--drain-timeout", "1"]);
    let mut running = server.post(CHAT, &stream(4000));
    let id = running.header("x-request-id").unwrap().to_owned();
    running.texts(1);
    let since = Instant::now();
    signal(server.pid());
    assert_eq!(last_error(&mut running), "unavailable");
    assert_eq!(server.exit().code(), Some(0));
    assert!(since.elapsed() < AT_ONCE, "{:?}", since.elapsed());
    // Which one was cut is said, too.
    server.logged_together(&[&format!("request id=\"{id}\""), "finish=\"error\" why=\"the service is shutting down"]);
}
