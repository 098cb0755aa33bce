//! The open loop: requests go out when they are due, and what they wait counts.

use crate::server::{self, Server, answer_well, chunk, finish, usage};
use crate::{report, run};
use loadtest::report::parts::Row;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

const MS: f64 = 1.0;

/// Holds back whoever comes, until it opens.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_while(open, |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

fn ttft(row: &Row) -> f64 {
    row.first_ms.unwrap() - row.intended_ms
}

/// Twelve requests, ten milliseconds apart. The server answers nobody until it has seen as many as `gate_at`.
fn stalled(gate_at: usize, more: &[&str]) -> loadtest::report::Run {
    let (gate, come) = (Gate::default(), AtomicUsize::new(0));
    let server = Server::new(move |_, stream| {
        if come.fetch_add(1, Ordering::SeqCst) + 1 >= gate_at {
            gate.open();
        }
        gate.pass();
        answer_well(stream, &["a"], 1);
    });
    run(&server.url, &[&["--requests", "12", "--rate", "100", "--arrivals", "constant"], more].concat())
}

#[test]
fn a_stalled_server_does_not_keep_requests_from_being_sent() {
    // A client that waited for answers would never send the twelfth, and nobody would be answered.
    let run = stalled(12, &[]);
    assert_eq!((run.done, run.delayed), (12, 0), "{run:?}");
    let last_sent = run.rows[11].sent_ms;
    for (i, row) in run.rows.iter().enumerate() {
        assert_eq!(row.intended_ms, 10.0 * i as f64);
        assert!(row.sent_ms >= row.intended_ms);
        assert!(ttft(row) >= last_sent - row.intended_ms, "row {i} was answered after the last was sent: {row:?}");
    }
    // The first waited for the other eleven: 110 ms. Its latency says so.
    assert!(run.ttft_ms.unwrap().max >= 110.0 * MS);
}

#[test]
fn a_request_that_may_not_be_sent_waits_and_its_latency_counts_from_when_it_was_due() {
    // Four at once, and nobody is answered before four are there. None of that moves when the others were due.
    let run = stalled(4, &["--max-in-flight", "4"]);
    assert_eq!(run.done, 12);
    for (i, row) in run.rows.iter().enumerate() {
        assert_eq!(row.intended_ms, 10.0 * i as f64, "{row:?}");
        assert!(ttft(row) >= row.sent_ms - row.intended_ms, "{row:?}");
    }
}

#[test]
fn one_at_a_time_delays_all_that_are_due_meanwhile() {
    // The last is due 11 ms after the first, whose answer takes far longer.
    let server = Server::new(|_, stream| {
        std::thread::sleep(std::time::Duration::from_millis(150));
        answer_well(stream, &["a"], 1);
    });
    let report = report(&server.url, &["--requests", "12", "--rate", "1000", "--arrivals", "constant", "--max-in-flight", "1"]);
    let run = &report.runs[0];
    assert_eq!((run.done, run.delayed), (12, 11), "{run:?}");
    let freed = run.rows[0].ended_ms;
    for row in &run.rows[1..] {
        assert!(row.delayed && row.sent_ms >= freed - 0.001, "{row:?}");
        assert!(ttft(row) >= freed - row.intended_ms - 0.001, "{row:?}");
    }
    assert!(report.to_string().contains("delayed     11 requests waited"), "{report}");
}

#[test]
fn a_sweep_runs_each_rate_and_drains_between() {
    let (now, most) = (AtomicUsize::new(0), std::sync::Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let server = Server::new(move |_, stream| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        answer_well(stream, &["a", "b"], 2);
        now.fetch_sub(1, Ordering::SeqCst);
    });
    let folder = tempfile::tempdir().unwrap();
    let [html, svg] = ["report.html", "plot.svg"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let more = ["--sweep", "100..400 x3", "--requests", "20", "--warmup", "3", "--slo", "e2e=10s", "--html", &html, "--svg", &svg];
    let report = report(&server.url, &more);
    assert_eq!(report.runs.iter().map(|r| r.rate.unwrap().to_string()).collect::<Vec<_>>(), ["100/s", "200/s", "400/s"]);
    for run in &report.runs {
        assert_eq!((run.requests, run.done, run.rows[0].index), (20, 20, 3));
        assert_eq!(run.goodput.unwrap().good, 20);
        assert!(run.under_load.unwrap().offered_per_s > 0.0);
    }
    assert_eq!(server.asked().len(), 3 * 23);
    assert!(most.load(Ordering::SeqCst) >= 1);
    let text = report.to_string();
    assert!(text.contains("poisson arrivals, 3 rates") && text.contains("good is within e2e 10s"), "{text}");
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    assert!(read(&html).contains("As the load grows") && read(&svg).starts_with("<svg"));
}

#[test]
fn a_run_of_some_seconds_has_what_was_due_in_them() {
    let server = Server::new(|_, stream| answer_well(stream, &["a"], 1));
    let more = ["--rate", "50", "--arrivals", "constant", "--duration", "0.5", "--warmup-seconds", "0.2"];
    let run = run(&server.url, &more);
    // 35 were due in 0.7 s, 10 of them in the first 0.2.
    assert_eq!((run.requests, run.rows[0].index, run.rows[0].intended_ms), (25, 10, 200.0));
    assert_eq!(server.asked().len(), 35);
    let load = run.under_load.unwrap();
    assert!((load.seconds - 0.5).abs() < 1e-9 && (load.offered_per_s - 50.0).abs() < 1e-6, "{load:?}");
    let closed = crate::run(&server.url, &["--duration", "0.3", "--concurrency", "2"]);
    assert!(closed.done >= 2 && closed.rows.iter().all(|row| row.intended_ms < 300.0), "{closed:?}");
}

#[test]
fn a_ramp_grows() {
    let server = Server::new(|_, stream| answer_well(stream, &["a"], 1));
    let run = run(&server.url, &["--ramp", "20..180", "--arrivals", "constant", "--requests", "50"]);
    // 50 requests at 100 a second on average: half a second. A quarter of it, and a half.
    let before = |ms: f64| run.rows.iter().filter(|row| row.intended_ms < ms).count();
    assert_eq!((run.requests, before(125.0), before(250.0), before(501.0)), (50, 5, 15, 50));
}

#[test]
fn a_trace_is_replayed_at_its_times_with_its_lengths() {
    let server = Server::new(|_, stream| answer_well(stream, &["a"], 1));
    let file = tempfile::NamedTempFile::new().unwrap();
    let lines = [
        r#"{"timestamp":5000,"input_length":3,"output_length":7}"#,
        r#"{"timestamp":5100,"prompt":"hello"}"#,
        r#"{"timestamp":5400,"messages":[{"role":"user","content":"bye"}],"output_length":2}"#,
    ];
    std::fs::write(file.path(), lines.join("\n")).unwrap();
    let path = file.path().to_str().unwrap();
    let run = run(&server.url, &["--trace", path, "--trace-unit", "ms", "--speed", "4", "--max-tokens", "9"]);
    assert_eq!(run.rows.iter().map(|row| row.intended_ms).collect::<Vec<_>>(), [0.0, 25.0, 100.0]);
    let mut asked: Vec<(String, u64)> = Vec::new();
    for one in server.asked() {
        let messages = one.body["messages"].as_array().unwrap();
        asked.push((messages.last().unwrap()["content"].as_str().unwrap().to_owned(), one.body["max_tokens"].as_u64().unwrap()));
    }
    // They may overtake each other on the way.
    asked.sort_by_key(|(_, tokens)| *tokens);
    assert_eq!((asked[0].clone(), asked[2].1), (("bye".to_owned(), 2), 9));
    assert_eq!((asked[1].0.split(' ').count(), asked[1].1), (3, 7));
    std::fs::write(file.path(), lines.join("\n") + "\n{\"timestamp\":1}").unwrap();
    let error = loadtest::run(&crate::args(&server.url, &["--trace", path])).unwrap_err().to_string();
    assert!(error.starts_with(path) && error.contains("line 4: timestamp 1 is before the one above"), "{error}");
}

#[test]
fn turns_follow_their_answers_in_an_open_loop_too() {
    let server = Server::new(|_, stream| answer_well(stream, &["x"], 1));
    let more = ["--rate", "100", "--requests", "6", "--turns", "3", "--random-prompt", "4", "--shared-prefix", "5", "--groups", "2"];
    let run = run(&server.url, &more);
    assert_eq!(run.done, 6);
    for conversation in run.rows.chunks(3) {
        for turn in conversation.windows(2) {
            assert!((turn[1].intended_ms - turn[0].ended_ms).abs() < 0.002, "{turn:?}");
        }
    }
    let lengths: Vec<usize> = server.asked().iter().map(|a| a.body["messages"].as_array().unwrap().len()).collect();
    assert_eq!(lengths.iter().filter(|&&n| n == 6).count(), 2, "a system prompt, two turns with answers, a third turn: {lengths:?}");
}

#[test]
fn slow_readers_read_at_their_rate_and_others_do_not_feel_it() {
    const RATE: f64 = 20_000.0;
    // 200 events of some 70 bytes, and what chunked coding adds.
    let events: Vec<String> = (0..200).map(|_| chunk("a")).chain([finish("length"), usage(1, 200), "data: [DONE]\n\n".into()]).collect();
    let bytes: usize = events.iter().map(|event| event.len() + 6).sum();
    let server = Server::new(move |_, stream| {
        server::begin(stream);
        events.iter().for_each(|event| server::chunked(stream, event.as_bytes()));
        server::end(stream);
    });
    let run = run(&server.url, &["--requests", "6", "--concurrency", "3", "--slow-reader", "0.5", "--slow-reader-rate", &RATE.to_string(), "--seed", "3"]);
    let slow = run.slow.unwrap();
    assert!((1..6).contains(&slow.requests) && slow.done == slow.requests, "{run:?}");
    // A reader may have read one lot ahead of its rate, which is what comes in 50 ms, and no more.
    let least_ms = 1e3 * (bytes as f64 - RATE * 0.05) / RATE - 100.0;
    for row in &run.rows {
        let took = row.ended_ms - row.intended_ms;
        assert!(!row.slow || took >= least_ms, "{bytes} bytes at {RATE} in {took} ms, at least {least_ms}");
    }
    assert_eq!(run.e2e_ms.unwrap().count, 6 - slow.requests);
    assert!(slow.e2e_ms.unwrap().mean > run.e2e_ms.unwrap().mean);
}
