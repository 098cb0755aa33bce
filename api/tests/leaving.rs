//! Clients that leave, at every stage: their rows are freed while the server and everybody else go on.

#![allow(clippy::unwrap_used)]

mod common;

use actors::Options;
use common::{Client, ENDLESS, Server, post};
use serde_json::json;
use std::net::Shutdown;

fn endless(stream: bool) -> String {
    json!({"prompt": "a", "max_tokens": ENDLESS, "ignore_eos": true, "stream": stream}).to_string()
}

/// Starts a request that would run for hours, and waits until its row runs.
fn running(server: &Server, stream: bool) -> Client {
    let mut client = server.client();
    client.send(&post("/v1/completions", &endless(stream)));
    server.wait("it runs", |s| s.running == 1);
    client
}

fn still_serves(server: &Server) {
    assert_eq!(server.client().ask("/v1/completions", json!({"prompt": "b"})).status, 200);
    server.wait_idle();
}

#[test]
fn before_the_answer_of_a_request_that_is_not_streamed() {
    let server = Server::start();
    drop(running(&server, false));
    server.wait_idle();
    still_serves(&server);
}

#[test]
fn on_a_kept_connection_after_an_earlier_answer() {
    let server = Server::start();
    let mut client = server.client();
    for stream in [false, true] {
        assert_eq!(client.ask("/v1/completions", json!({"prompt": "b", "stream": stream})).status, 200);
    }
    client.send(&post("/v1/completions", &endless(false)));
    server.wait("it runs", |s| s.running == 1);
    drop(client);
    server.wait_idle();
    still_serves(&server);
}

#[test]
fn rows_of_one_id_are_told_apart_by_their_numbers() {
    let server = Server::with(Options { batch: 2, ..Options::default() }, |_| {});
    let body = endless(true);
    let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nx-request-id: same\r\n";
    let clients = [(); 2].map(|()| {
        let mut client = server.client();
        client.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
        client
    });
    server.wait("both run", |s| s.running == 2);
    let rows = server.client().get("/stats").json()["rows"].clone();
    assert_eq!((rows[0]["id"].as_str(), rows[1]["id"].as_str()), (Some("same"), Some("same")));
    assert!(rows[0]["row"].as_u64().unwrap() < rows[1]["row"].as_u64().unwrap(), "{rows}");
    drop(clients);
    server.wait_idle();
}

#[test]
fn with_another_request_sent_behind() {
    let server = Server::start();
    let mut client = running(&server, false);
    client.send(&post("/v1/completions", &endless(true)));
    drop(client);
    server.wait_idle();
    still_serves(&server);
}

#[test]
fn in_the_middle_of_a_stream() {
    let server = Server::start();
    let mut client = running(&server, true);
    assert_eq!(client.head().status, 200);
    let mut body = Vec::new();
    while common::frames(&body).len() < 5 {
        assert!(client.chunk(&mut body));
    }
    drop(client);
    server.wait_idle();
    still_serves(&server);
}

#[test]
fn by_closing_only_its_own_half() {
    let server = Server::start();
    for stream in [false, true] {
        let client = running(&server, stream);
        client.socket.shutdown(Shutdown::Write).unwrap();
        server.wait_idle();
    }
    still_serves(&server);
}

#[test]
fn while_it_waits_in_the_queue() {
    let server = Server::with(Options { batch: 1, ..Options::default() }, |_| {});
    let first = running(&server, true);
    let mut waiting = server.client();
    waiting.send(&post("/v1/completions", &endless(false)));
    server.wait("one waits", |s| s.waiting == 1);
    drop(waiting);
    server.wait("none waits", |s| s.waiting == 0 && s.running == 1);
    drop(first);
    server.wait_idle();
    still_serves(&server);
}

#[test]
fn in_the_middle_of_its_own_body() {
    let server = Server::start();
    let whole = post("/v1/completions", &endless(false));
    for cut in [1, 20, whole.len() - 40, whole.len() - 1] {
        let mut client = server.client();
        client.send(&whole[..cut]);
        drop(client);
    }
    still_serves(&server);
    assert_eq!(server.service.stats().tokens.generated, 16, "only the last request ran");
}

#[test]
fn two_hundred_at_once() {
    let server = Server::start();
    let clients: Vec<Client> = (0..200)
        .map(|i| {
            let mut client = server.client();
            client.send(&post("/v1/completions", &endless(i % 2 == 0)));
            client
        })
        .collect();
    server.wait("all have come", |s| s.running + s.waiting == 200);
    drop(clients);
    server.wait_idle();
    still_serves(&server);
}

#[test]
fn one_that_does_not_read_holds_nobody_up() {
    let server = Server::start();
    let silent = running(&server, true);
    for i in 0..20 {
        let answer = server.client().ask("/v1/completions", json!({"prompt": "b", "stream": i % 2 == 0}));
        assert_eq!(answer.status, 200);
    }
    drop(silent);
    server.wait_idle();
}
