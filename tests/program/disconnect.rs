//! Clients that hang up leave nothing behind: no row, no byte, no descriptor, no thread; and nobody else notices.

use crate::common::{Reply, Server, begin, chat, send, until};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::thread;

const LEAVERS: usize = 200;
/// At once; the batch holds them all.
const WAVE: usize = 16;
/// Growth of resident memory that is no leak: buffers of sizes that were not needed before, and what the C library's allocator
/// keeps of its arenas. A connection's buffers alone take 64 KiB and more, so that 200 that stayed would show.
const GROWTH_BYTES_MAX: u64 = 12 << 20;

/// More than there is time for before the hang-up.
fn endless(i: usize) -> Value {
    chat(&format!("Count to one thousand, from {i} on."), json!({"max_tokens": 300, "ignore_eos": true, "stream": i % 4 != 0}))
}

/// Clients number `from` to `to`, all at once: of four, one waits for a whole answer, one leaves before the first token, and
/// two after one token or two.
fn wave(server: &Server, from: usize, to: usize) {
    let bodies: Vec<Value> = (from..to).map(endless).collect();
    let (streams, wholes): (Vec<&Value>, Vec<&Value>) = bodies.iter().partition(|b| b["stream"] == true);
    let waiting: Vec<TcpStream> = wholes.iter().map(|body| begin(server.addr, "POST", "/v1/chat/completions", Some(body)).unwrap()).collect();
    thread::scope(|scope| {
        for (i, body) in streams.iter().enumerate() {
            scope.spawn(move || {
                let mut reply = send(server.addr, "POST", "/v1/chat/completions", Some(body)).unwrap();
                assert_eq!(reply.status, 200);
                reply.texts(i % 3);
            });
        }
    });
    // A client that leaves before its request is read has asked for nothing: those without a head to read must be in the house.
    until("requests in the house", || {
        let stats = server.stats();
        let rows = stats["running"].as_u64()? + stats["waiting"].as_u64()?;
        (rows >= waiting.len() as u64).then_some(())
    });
    drop(waiting);
    server.idle();
}

#[test]
fn two_hundred_who_hang_up_leave_nothing_behind() {
    let server = Server::of_default_model(&["--batch", "16", "--kv-budget", "200MB"]);
    // What is made once, at first use, is no growth: threads, and buffers for a full batch.
    wave(&server, 0, WAVE);
    let gone = |count: usize| until("disconnects", || (server.metric("coxswain:disconnects_total", "") == count as u64).then_some(()));
    gone(WAVE);
    let (descriptors, threads, resident) = (settled_descriptors(&server), server.proc_status("Threads"), server.proc_status("VmRSS"));
    let cache = server.metric("coxswain:mlx_memory_bytes", r#"kind="cache""#);

    for from in (0..LEAVERS).step_by(WAVE) {
        wave(&server, from, (from + WAVE).min(LEAVERS));
    }
    gone(WAVE + LEAVERS);
    assert_eq!(server.metric("vllm:num_requests_running", ""), 0);
    assert_eq!(server.metric("vllm:num_requests_waiting", ""), 0);
    assert_eq!(server.metric("coxswain:kv_bytes", r#"holder="rows""#), 0);
    assert_eq!(server.metric("coxswain:invariant_violations_total", ""), 0);
    assert_eq!(settled_descriptors(&server), descriptors, "descriptors");
    assert_eq!(server.proc_status("Threads"), threads, "threads");
    // What MLX keeps for reuse is bounded by the largest step and told on its own.
    let more_cache = server.metric("coxswain:mlx_memory_bytes", r#"kind="cache""#).saturating_sub(cache);
    let growth = server.proc_status("VmRSS").saturating_sub(resident);
    println!("resident memory grew by {} KiB, MLX's cache by {} KiB", growth / 1024, more_cache / 1024);
    assert!(growth <= GROWTH_BYTES_MAX + more_cache, "resident memory grew by {growth} bytes, MLX's cache by {more_cache}");
}

/// Open descriptors once no connection is: the server closes one when it comes to it, a moment after its client did.
fn settled_descriptors(server: &Server) -> usize {
    until("closed connections", || (server.connections() == 0).then_some(()));
    server.descriptors()
}

#[test]
fn one_who_hangs_up_frees_the_row_and_does_not_disturb_another() {
    let server = Server::of_default_model(&["--kv-budget", "200MB"]);
    let staying = chat("Tell me about the tides.", json!({"max_tokens": 40, "ignore_eos": true, "stream": true}));
    let ask = |body: &Value| -> Reply { server.post("/v1/chat/completions", body) };
    let alone = ask(&staying).rest();
    let mut stays = ask(&staying);
    let before = stays.texts(1);
    let mut leaves = ask(&endless(1));
    leaves.texts(2);
    assert_eq!(server.metric("vllm:num_requests_running", ""), 2);
    drop(leaves);
    until("the row is free", || (server.stats()["running"] == 1).then_some(()));
    let (text, finish, done) = stays.rest();
    assert_eq!((before + &text, finish, done), alone);
    server.idle();
}
