//! What servers do differently, and what all of them must not be told: any OpenAI-compatible one is understood.

use crate::run;
use crate::server::{self, Server, answer_well, chunk, finish};
use loadtest::report::TokensFrom;
use std::io::Write;

#[test]
fn streams_of_other_servers_are_understood() {
    // Reasoning fields, line ends of two characters, pings of two kinds, nulls where nothing is, and no usage.
    let events = [
        ": OPENROUTER PROCESSING\r\n\r\n",
        "event: ping\r\ndata: {\"choices\":null,\"usage\":null}\r\n\r\n",
        "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"hm\"},\"finish_reason\":null}],\"usage\":null}\r\n\r\n",
        "data: {\"choices\":[{\"delta\":{\"reasoning\":\"so\"}}]}\r\n\r\n",
        "data:{\"choices\":[{\"delta\":{\"content\":\"yes\"},\"logprobs\":null}],\"timings\":{\"x\":1}}\r\n\r\n",
        "id: 7\r\nretry: 10\r\ndata: {\"choices\":[{\"delta\":null,\"finish_reason\":\"stop\"}]}\r\n\r\n",
        "data: [DONE]\r\n\r\n",
    ];
    let server = Server::new(move |_, stream| {
        server::begin(stream);
        events.iter().for_each(|event| server::chunked(stream, event.as_bytes()));
        server::end(stream);
    });
    let run = run(&server.url, &["--requests", "2"]);
    assert_eq!((run.done, run.output_tokens, run.output_tokens_from), (2, 6, TokensFrom::Pieces), "{run:?}");
    assert_eq!(run.finish_reasons, [("stop".to_owned(), 2)].into());
    let body = &server.asked()[0].body;
    assert_eq!((&body["stream"], &body["stream_options"]["include_usage"]), (&true.into(), &true.into()));
}

#[test]
fn a_stream_without_a_transfer_coding_is_read_to_its_end() {
    let server = Server::new(|_, stream| {
        stream.write_all(b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").unwrap();
        for part in [chunk("a"), finish("stop"), "data: [DONE]\n\n".into()] {
            stream.write_all(part.as_bytes()).unwrap();
        }
    });
    assert_eq!(run(&server.url, &["--requests", "2"]).done, 2);
}

#[test]
fn a_status_with_retry_after_is_a_refusal_and_without_one_a_failure() {
    let refuse = |status: &'static str, head: &'static str| {
        Server::new(move |_, stream| {
            let body = "{\"error\":{\"message\":\"the queue is full\"}}";
            write!(stream, "HTTP/1.1 {status}\r\n{head}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).unwrap();
        })
    };
    // An open loop: a closed one would stay away for as long as it is told.
    let open = ["--requests", "3", "--rate", "1000"];
    for (status, head, refused) in [
        ("429 Too Many Requests", "Retry-After: 7\r\n", true),
        ("503 Service Unavailable", "retry-after: 1\r\n", true),
        ("503 Service Unavailable", "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n", true),
        ("429 Too Many Requests", "", false),
        ("503 Service Unavailable", "", false),
        ("500 Internal Server Error", "Retry-After: 7\r\n", false),
    ] {
        let server = refuse(status, head);
        let run = run(&server.url, &open);
        assert_eq!((run.refused, run.failed), if refused { (3, 0) } else { (0, 3) }, "{status} {head}: {run:?}");
        let listed = if refused { &run.refusals } else { &run.errors };
        assert!(listed.values().all(|e| e.example.contains("the queue is full")), "{listed:?}");
    }
    let report = crate::report(&refuse("429 Too Many Requests", "Retry-After: 7\r\n").url, &open);
    assert!(!report.ok(), "all were refused");
    assert!(
        report.to_string().contains("status_429: 3, such as: 429 Too Many Requests: {\"error\":{\"message\":\"the queue is full\"}} (Retry-After 7 s)"),
        "{report}"
    );
}

#[test]
fn a_refused_client_of_a_closed_loop_stays_away_for_as_long_as_it_is_told() {
    let first = std::sync::atomic::AtomicBool::new(true);
    let server = Server::new(move |_, stream| {
        if first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            write!(stream, "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n").unwrap();
        } else {
            answer_well(stream, &["a"], 1);
        }
    });
    let run = run(&server.url, &["--requests", "2", "--concurrency", "1"]);
    assert_eq!((run.refused, run.done), (1, 1));
    let (refused, next) = (&run.rows[0], &run.rows[1]);
    // What it waited is not the next request's latency.
    assert!(next.intended_ms >= refused.ended_ms + 999.0 && next.sent_ms >= next.intended_ms - 0.001, "{run:?}");
}

#[test]
fn nobody_stays_away_for_longer_than_an_answer_may_take() {
    let first = std::sync::atomic::AtomicBool::new(true);
    let server = Server::new(move |_, stream| {
        if first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            write!(stream, "HTTP/1.1 503 Service Unavailable\r\nretry-after: {}\r\ncontent-length: 0\r\n\r\n", u64::MAX).unwrap();
        } else {
            answer_well(stream, &["a"], 1);
        }
    });
    let args = loadtest::Args { timeout: 1, ..crate::args(&server.url, &["--requests", "2", "--concurrency", "1"]) };
    let run = crate::run_with(&args);
    assert_eq!((run.refused, run.done), (1, 1), "{run:?}");
}

#[test]
fn each_key_of_a_mix_is_sent_and_none_is_reported() {
    let server = Server::new(|asked, stream| {
        let key = asked.head.iter().find_map(|h| h.strip_prefix("authorization: Bearer ")).unwrap();
        if key == "hunter2" { answer_well(stream, &["a"], 1) } else { server::plain(stream, "403 Forbidden", &format!("key {key} may not")) }
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "# the team\nann=hunter2:3\nbob=hunter3:1\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [json, html] = ["report.json", "report.html"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let file = file.path().to_str().unwrap();
    let report = crate::report(&server.url, &["--requests", "40", "--keys", file, "--json", &json, "--html", &html]);
    let run = &report.runs[0];
    let [ann, bob] = run.keys.as_slice() else { panic!("{:?}", run.keys) };
    assert_eq!((ann.name.as_str(), ann.requests, ann.done), ("ann", ann.done, run.done));
    assert_eq!((bob.name.as_str(), bob.requests, bob.failed), ("bob", bob.failed, run.failed));
    assert!(ann.requests > bob.requests && bob.requests > 0, "{:?}", run.keys);
    let sent = |key: &str| server.asked().iter().filter(|a| a.head.contains(&format!("authorization: Bearer {key}"))).count();
    assert_eq!((sent("hunter2"), sent("hunter3")), (ann.requests, bob.requests));
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    for text in [read(&json), read(&html), report.to_string(), format!("{report:?}")] {
        assert!(text.contains("ann") && text.contains("key … may not") && !text.contains("hunter"), "{text}");
    }
}
