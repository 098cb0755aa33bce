//! The worker process: streams survive its death with the same tokens, it never outlives the server, and the server says how it is.

use crate::common::{LOOK, PATIENCE, Reply, Server, chat, copy, exit, program, send, signal, tokenizer, until};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, kill_process_group, pidfd_getfd, pidfd_open};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const CHAT: &str = "/v1/chat/completions";
const STREAMS: u64 = 16;
/// After the server's death.
const ORPHAN: Duration = Duration::from_secs(2);

/// Sixteen different requests: of several lengths, greedy and sampled, and some with a stop string that comes.
fn bodies() -> Vec<Value> {
    let subjects = ["the tides", "a clock", "bread", "the moon", "a bridge", "rain", "an old ship", "chess"];
    (0..STREAMS)
        .map(|i| {
            let subject = subjects[i as usize % subjects.len()];
            let text =
                if i < 8 { format!("Write about {subject}.") } else { format!("Here is a list: {}. What is {subject}?", "one, two, three, ".repeat(20)) };
            let mut body = chat(&text, json!({"max_tokens": 24 + i, "ignore_eos": true, "stream": true, "seed": i, "stream_options": {"include_usage": true}}));
            if i % 4 == 3 {
                body["temperature"] = json!(0.8);
            }
            if i % 5 == 0 {
                body["stop"] = json!([" and the", " of a"]);
            }
            body
        })
        .collect()
}

/// What a stream came to: text, finish, and the tokens of prompt and answer.
type Whole = (String, String, u64, u64);

/// Reads a stream to its end, and tells of every piece of text. Gives also how often it was interrupted.
fn read(mut reply: Reply, heard: &mpsc::Sender<()>) -> (Whole, u64) {
    assert_eq!(reply.status, 200);
    let (mut text, mut finish, mut usage, mut restarts) = (String::new(), String::new(), None, 0);
    while let Some(event) = reply.event().unwrap() {
        if event == "[DONE]" {
            let usage: Value = usage.expect("usage was asked for");
            return ((text, finish, usage["prompt_tokens"].as_u64().unwrap(), usage["completion_tokens"].as_u64().unwrap()), restarts);
        }
        let event: Value = serde_json::from_str(&event).unwrap();
        assert!(event["error"].is_null(), "{event}");
        if let Some(piece) = event["choices"][0]["delta"]["content"].as_str().filter(|piece| !piece.is_empty()) {
            text += piece;
            // Nobody counts any more.
            let _ = heard.send(());
        }
        if let Some(reason) = event["choices"][0]["finish_reason"].as_str() {
            finish = reason.to_owned();
        }
        if let Some(count) = event["coxswain"]["restarts"].as_u64() {
            restarts = count;
        }
        if !event["usage"].is_null() {
            usage = Some(event["usage"].clone());
        }
    }
    panic!("a stream ended without its mark: {text}");
}

/// All streams at once; `meanwhile` is given the pieces of text as they come. Gives also how often they were interrupted, all together.
fn streams(server: &Server, meanwhile: impl FnOnce(&mpsc::Receiver<()>)) -> (Vec<Whole>, u64) {
    let (heard, pieces) = mpsc::channel();
    let addr = server.addr;
    thread::scope(|scope| {
        let asked = |body: Value| {
            let heard = heard.clone();
            scope.spawn(move || read(send(addr, "POST", CHAT, Some(&body)).unwrap(), &heard))
        };
        let running: Vec<_> = bodies().into_iter().map(asked).collect();
        drop(heard);
        meanwhile(&pieces);
        let (whole, restarts): (_, Vec<u64>) = running.into_iter().map(|stream| stream.join().unwrap()).unzip();
        (whole, restarts.iter().sum())
    })
}

/// The worker's state and process, of `/stats`.
fn worker(server: &Server) -> (String, Option<u32>) {
    let worker = &server.stats()["worker"];
    (worker["state"].as_str().unwrap().to_owned(), worker["pid"].as_u64().map(|pid| pid as u32))
}

/// The worker that is ready, and is not `last`.
fn ready(server: &Server, last: Option<u32>) -> u32 {
    until("a worker", || match worker(server) {
        (state, Some(pid)) if state == "ready" && Some(pid) != last => Some(pid),
        _ => None,
    })
}

fn strike(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Waits for so many more pieces of text; fewer if the streams end before.
fn pieces(from: &mpsc::Receiver<()>, count: u64) {
    for _ in 0..count {
        if from.recv_timeout(PATIENCE).is_err() {
            return;
        }
    }
}

/// Losses of one cause, as `/metrics` has them, and rows that went on.
fn losses(server: &Server, cause: &str) -> (u64, u64) {
    (server.metric("coxswain:worker_restarts_total", &format!("cause=\"{cause}\"")), server.metric("coxswain:recovered_rows_total", ""))
}

fn many(args: &[&'static str]) -> Server {
    let all = [&["--kv-budget", "300MB", "--losses", "1000"], args].concat();
    Server::of_default_model(&all)
}

#[test]
fn streams_survive_the_worker_with_the_same_text() {
    let server = many(&["--step-deadline", "5"]);
    let (alone, none) = streams(&server, |_| ());
    assert_eq!(none, 0);

    // While the prompts are read, at four moments that nobody chose while answers come, and with nothing to do.
    let mut pid = ready(&server, None);
    let chance = u64::from(std::process::id());
    let moments = [0, chance % 53, chance / 7 % 89, chance / 31 % 67, chance / 127 % 97];
    println!("killed after so many pieces of text each: {moments:?}");
    let (killed, interrupted) = streams(&server, |heard| {
        until("rows", || (server.stats()["running"].as_u64() > Some(0)).then_some(()));
        for wait in moments {
            pieces(heard, wait);
            strike(pid, Signal::KILL);
            pid = ready(&server, Some(pid));
        }
    });
    assert_eq!(killed, alone);
    server.idle();
    strike(pid, Signal::KILL);
    pid = ready(&server, Some(pid));
    let (exits, recovered) = losses(&server, "exit");
    assert_eq!(exits, 6);
    assert!(recovered == interrupted && interrupted >= STREAMS, "{recovered} {interrupted}");

    // It stands still, while prompts are read and while answers come.
    let (stopped, interrupted) = streams(&server, |heard| {
        for wait in [1, 70] {
            pieces(heard, wait);
            strike(pid, Signal::STOP);
            pid = ready(&server, Some(pid));
        }
    });
    assert_eq!(stopped, alone);
    let (hangs, more) = losses(&server, "hang");
    assert!(hangs == 2 && interrupted > 0 && more == recovered + interrupted, "{hangs} {more} {recovered} {interrupted}");

    // It writes what is no frame.
    let (confused, _) = streams(&server, |heard| {
        pieces(heard, 50);
        garble(pid);
        pid = ready(&server, Some(pid));
    });
    assert_eq!(confused, alone);
    assert_eq!(losses(&server, "ipc").0, 1);
    assert_eq!(server.metric("coxswain:invariant_violations_total", ""), 0);
    server.logged("could not be understood: what came is no frame");
}

/// Writes to the server through the worker's own descriptor, as a library that prints to it would.
fn garble(pid: u32) {
    let process = pidfd_open(Pid::from_raw(pid.cast_signed()).unwrap(), PidfdFlags::empty()).unwrap();
    let socket = pidfd_getfd(process, 0, PidfdGetfdFlags::empty()).unwrap();
    std::fs::File::from(socket).write_all(b"terminate called\n").unwrap();
}

#[test]
fn the_server_is_small_and_has_no_model_in_it() {
    let mut server = Server::of_default_model(&["--kv-budget", "200MB"]);
    let pid = ready(&server, None);
    server.complete(&json!({"prompt": "The tide", "max_tokens": 4}));
    let (mine, workers) = (server.proc_status("VmRSS"), server.proc_status_of(pid, "VmRSS"));
    println!("the server has {mine} bytes, the worker {workers}");
    assert!(mine < 150_000_000, "{mine}");
    assert!(workers > 400_000_000, "{workers}: the model is in it");
    // The orderly end takes the worker along.
    crate::common::signal(server.pid());
    assert_eq!(server.exit().code(), Some(0));
    gone(pid);
}

fn gone(pid: u32) {
    let since = Instant::now();
    // Init may take its time to clear the dead away.
    let lives =
        || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')));
    while lives() {
        assert!(since.elapsed() < ORPHAN, "worker {pid} outlives its server");
        thread::sleep(LOOK);
    }
}

#[test]
fn a_worker_does_not_outlive_a_server_that_was_killed() {
    for (while_stopped, busy) in [(false, false), (false, true), (true, false)] {
        let mut server = Server::of_default_model(&["--kv-budget", "200MB"]);
        let pid = ready(&server, None);
        if busy {
            server.post(CHAT, &chat("Tell me about the tides.", json!({"stream": true, "max_tokens": 1000}))).texts(1);
        }
        if while_stopped {
            strike(pid, Signal::STOP);
        }
        server.kill();
        gone(pid);
    }
}

#[test]
fn ctrl_c_drains_and_the_worker_stays_for_that() {
    let mut server = Server::of_default_model(&["--kv-budget", "200MB"]);
    let mut running = server.post(CHAT, &chat("Tell me about the tides.", json!({"max_tokens": 40, "ignore_eos": true, "stream": true})));
    running.texts(1);
    // As a terminal does: to everybody in the group.
    kill_process_group(Pid::from_raw(server.pid().cast_signed()).unwrap(), Signal::INT).unwrap();
    let (_, finish, done) = running.rest();
    assert_eq!((finish.as_str(), done), ("length", true));
    assert_eq!(server.exit().code(), Some(0));
}

#[test]
fn a_worker_that_dies_on_load_is_said_and_may_end_the_service() {
    let file = crate::common::default_model();
    for exits in [false, true] {
        let options: &[&str] = if exits { &["--kv-budget", "200MB", "--exit-on-failure"] } else { &["--kv-budget", "200MB"] };
        let mut server = Server::loading(&file.to_string_lossy(), options);
        let mut last = None;
        for _ in 0..3 {
            let pid = until("a worker that loads", || match worker(&server) {
                (state, Some(pid)) if state == "loading" && Some(pid) != last => Some(pid),
                (state, _) => {
                    assert_ne!(state, "ready", "it loads faster than it can be killed");
                    None
                }
            });
            assert_eq!((server.get("/livez").status, server.get("/readyz").status), (200, 503));
            let early = server.post(CHAT, &chat("Hello", json!({"max_tokens": 1})));
            assert_eq!((early.status, early.header("retry-after").is_some()), (503, true));
            strike(pid, Signal::KILL);
            last = Some(pid);
        }
        if exits {
            assert_eq!(server.exit().code(), Some(1));
            server.logged("the model is not available: lost 3 times within 60 s, at last because: the worker process ended: signal: 9 (SIGKILL)");
            continue;
        }
        let reason = until("the reason", || {
            let said = server.get("/readyz").json();
            said["error"]["message"].as_str().filter(|said| said.contains("lost 3 times within 60 s")).map(str::to_owned)
        });
        assert!(reason.contains("SIGKILL"), "{reason}");
        assert_eq!(server.get("/v1/models").status, 503);
        // The process stays up, and what was lost comes back.
        until("the model", || (server.get("/readyz").status == 200).then_some(()));
        assert_eq!(server.metric("coxswain:worker_restarts_total", "cause=\"exit\""), 3);
        assert_eq!(server.post(CHAT, &chat("Hello", json!({"max_tokens": 1}))).status, 200);
    }
}

#[test]
fn in_one_process_the_answers_are_the_same() {
    let body = json!({"prompt": "The boat left the harbour and", "temperature": 0, "max_tokens": 20});
    let answers = [&["--kv-budget", "200MB"][..], &["--kv-budget", "200MB", "--in-process"]].map(|options| {
        let server = Server::of_default_model(options);
        (server.complete(&body).text, server.stats()["worker"]["mode"].as_str().unwrap().to_owned(), worker(&server).1.is_some())
    });
    let [(with, mode, pid), (without, other_mode, other_pid)] = answers;
    assert_eq!(with, without);
    assert_eq!((mode.as_str(), pid, other_mode.as_str(), other_pid), ("process", true, "in-process", false));
}

#[test]
fn the_worker_is_not_for_people() {
    let output = program().arg("worker").stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.trim()), (Some(2), "coxswain: worker is started by `coxswain serve`, not by hand"));
}

/// A log that nobody reads fills its pipe, which must not hold up what logs.
#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let (_root, dir) = copy("llama_tied");
    tokenizer(&dir);
    let mut command = program();
    let mut server = command.args(["serve", "--port", "0", "--kv-budget", "10MB", "--model"]).arg(&dir).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap());
    let addr: SocketAddr = loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "it ended before it served");
        if let Some((_, addr)) = line.split_once("serving ").and_then(|(_, rest)| rest.split_once("http://")) {
            break addr.split(' ').next().unwrap().parse().unwrap();
        }
    };
    // Lines of 60 bytes and more, in a pipe of 64 kB.
    for _ in 0..2000 {
        assert_eq!(send(addr, "GET", "/v1/models", None).unwrap().status, 200);
    }
    let stats = || send(addr, "GET", "/stats", None).unwrap().json();
    let pid = stats()["worker"]["pid"].as_u64().unwrap() as u32;
    strike(pid, Signal::KILL);
    until("another worker", || (stats()["worker"]["state"] == "ready" && stats()["worker"]["pid"].as_u64() != Some(pid.into())).then_some(()));
    signal(server.id());
    assert!(exit(&mut server, "the server").success());
    drop(log);
}
