//! Clients that hang up leave nothing behind: no row, no byte, no descriptor, no thread; and nobody else notices.

use crate::common::{Reply, Server, begin, chat, send, until};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::thread;

const CHAT: &str = "/v1/chat/completions";
const LEAVERS: usize = 200;
/// At once; the batch holds them all.
const WAVE: usize = 16;
/// Waves at either end of the run whose resident memory is held against each other.
const ENDS: usize = 4;
/// The allocators' give and take moves resident memory by up to 10 MB from wave to wave, and a leak is what stays: so it is the
/// least after the last waves against the most after the first. More than a hundred clients lie between; this is 80 KiB for each.
const GROWTH_BYTES_MAX: u64 = 8 << 20;

/// More than there is time for before the hang-up.
fn endless(i: usize) -> Value {
    chat(&format!("Count to one thousand, from {i} on."), json!({"max_tokens": 300, "ignore_eos": true, "stream": !i.is_multiple_of(4)}))
}

/// Clients number `from` to `to`, all at once: of four, one waits for a whole answer, one leaves before the first token, and
/// two after one token or two. Nobody is there before and after.
fn wave(server: &Server, from: usize, to: usize) {
    let bodies: Vec<Value> = (from..to).map(endless).collect();
    let (streams, wholes): (Vec<&Value>, Vec<&Value>) = bodies.iter().partition(|b| b["stream"] == true);
    let waiting: Vec<TcpStream> = wholes.iter().map(|body| begin(server.addr, "POST", CHAT, Some(body)).unwrap()).collect();
    // A client that leaves before its request is read has asked for nothing. These have no head to read that would tell.
    until("requests in the house", || {
        let stats = server.stats();
        let rows = stats["running"].as_u64()? + stats["waiting"].as_u64()?;
        (rows == waiting.len() as u64).then_some(())
    });
    thread::scope(|scope| {
        for (i, body) in streams.iter().enumerate() {
            scope.spawn(move || {
                let mut reply = send(server.addr, "POST", CHAT, Some(body)).unwrap();
                assert_eq!(reply.status, 200);
                reply.texts(i % 3);
            });
        }
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
    let mut prints: Vec<Footprint> = footprint(&server).into_iter().collect();

    for from in (0..LEAVERS).step_by(WAVE) {
        wave(&server, from, (from + WAVE).min(LEAVERS));
        prints.extend(footprint(&server));
    }
    gone(WAVE + LEAVERS);
    assert_eq!(server.metric("vllm:num_requests_running", ""), 0);
    assert_eq!(server.metric("vllm:num_requests_waiting", ""), 0);
    assert_eq!(server.metric("coxswain:kv_bytes", r#"holder="rows""#), 0);
    assert_eq!(server.metric("coxswain:invariant_violations_total", ""), 0);
    if let (Some(first), Some(last)) = (prints.first_chunk::<ENDS>(), prints.last_chunk::<ENDS>()) {
        assert_eq!((last[ENDS - 1].descriptors, last[ENDS - 1].threads), (first[0].descriptors, first[0].threads), "descriptors and threads");
        let most = first.iter().map(|p| p.resident_bytes).max().unwrap();
        let least = last.iter().map(|p| p.resident_bytes).min().unwrap();
        assert!(least <= most + GROWTH_BYTES_MAX, "resident memory grew from {most} to {least} bytes");
    }
}

/// What a process holds when no connection is open.
struct Footprint {
    descriptors: usize,
    threads: u64,
    resident_bytes: u64,
}

/// None where there is no `/proc` to read it from.
fn footprint(server: &Server) -> Option<Footprint> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    // The server closes a connection when it comes to it, a moment after its client did.
    until("closed connections", || (server.connections() == 0).then_some(()));
    Some(Footprint { descriptors: server.descriptors(), threads: server.proc_status("Threads"), resident_bytes: server.proc_status("VmRSS") })
}

#[test]
fn one_who_hangs_up_frees_the_row_and_does_not_disturb_another() {
    let server = Server::of_default_model(&["--kv-budget", "200MB"]);
    let staying = chat("Tell me about the tides.", json!({"max_tokens": 40, "ignore_eos": true, "stream": true}));
    let ask = |body: &Value| -> Reply { server.post(CHAT, body) };
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
