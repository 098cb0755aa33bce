//! The closed loop against real servers on loopback: one that answers well, and each way of answering badly.

use crate::server::{self, Asked, Server, answer_well, chunk, finish};
use crate::{Command, args, report, run, run_with};
use clap::Parser;
use loadtest::Args;
use loadtest::report::{Run, TokensFrom};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Failures by kind.
fn kinds(report: &Run) -> BTreeMap<&str, usize> {
    report.errors.iter().map(|(kind, errors)| (kind.as_str(), errors.count)).collect()
}

#[test]
fn a_good_stream_is_counted_by_its_usage() {
    let server = Server::new(|_, stream| answer_well(stream, &["a", "b", "cd"], 5));
    let report = run(&server.url, &["--requests", "6", "--concurrency", "2", "--max-tokens", "5"]);
    assert_eq!((report.requests, report.done, report.left, report.failed), (6, 6, 0, 0), "{report:?}");
    assert_eq!((report.output_tokens, report.output_tokens_from), (30, TokensFrom::Usage));
    assert_eq!((report.prompt_tokens, report.cached_tokens), (42, 0));
    assert_eq!(report.finish_reasons, [("length".to_owned(), 6)].into());
    let (ttft, e2e) = (report.ttft_ms.unwrap(), report.e2e_ms.unwrap());
    assert!(0.0 < ttft.p50 && ttft.max <= e2e.max, "{report:?}");
    assert!(report.itl_ms.is_some());
    assert!(report.wall_s * 1e3 >= e2e.max);
}

#[test]
fn without_usage_pieces_of_text_are_counted() {
    let server = Server::new(|_, stream| {
        server::begin(stream);
        for part in [chunk("a"), chunk("b"), finish("stop"), "data: [DONE]\n\n".into()] {
            server::chunked(stream, part.as_bytes());
        }
        server::end(stream);
    });
    let report = report(&server.url, &["--requests", "3"]);
    assert_eq!((report.runs[0].output_tokens, report.runs[0].output_tokens_from), (6, TokensFrom::Pieces));
    let said = report.to_string();
    assert!(said.contains("the server gave no usage") && !said.contains(" 0 tokens"), "{said}");
}

#[test]
fn counts_that_cannot_be_are_not_believed() {
    for usage in
        [r#"{"prompt_tokens":18446744073709551615,"completion_tokens":18446744073709551615}"#, r#"{"prompt_tokens":-1,"completion_tokens":4000000000}"#, "{}"]
    {
        let last = format!("data: {{\"choices\":[],\"usage\":{usage}}}\n\n");
        let server = Server::new(move |_, stream| {
            server::begin(stream);
            for part in [chunk("a"), chunk("b"), finish("stop"), last.clone(), "data: [DONE]\n\n".into()] {
                server::chunked(stream, part.as_bytes());
            }
            server::end(stream);
        });
        let report = run(&server.url, &["--requests", "3"]);
        assert_eq!((report.done, report.output_tokens, report.prompt_tokens, report.output_tokens_from), (3, 6, 0, TokensFrom::Pieces), "{usage}");
    }
}

#[test]
fn each_bad_answer_has_its_kind() {
    type Answer = fn(&mut TcpStream);
    let cases: [(&str, Answer); 9] = [
        ("status_429", |s| server::plain(s, "429 Too Many Requests", r#"{"error":{"message":"slow down"}}"#)),
        ("status_500", |s| server::plain(s, "500 Internal Server Error", "")),
        // The connection ends inside a chunk of the transfer coding.
        ("cut", |s| {
            server::begin(s);
            server::chunked(s, chunk("a").as_bytes());
            s.write_all(b"400\r\ndata: {\"cho").unwrap();
        }),
        // The transfer coding ends well, but before [DONE].
        ("cut", |s| {
            server::begin(s);
            server::chunked(s, chunk("a").as_bytes());
            server::end(s);
        }),
        // Without a transfer coding only [DONE] tells a whole stream from a cut one.
        ("cut", |s| {
            s.write_all(b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").unwrap();
            s.write_all(chunk("a").as_bytes()).unwrap();
        }),
        ("error_in_stream", |s| {
            server::begin(s);
            server::chunked(s, b"event: error\ndata: {\"error\":{\"message\":\"worker lost\"}}\n\n");
        }),
        ("malformed", |s| {
            server::begin(s);
            server::chunked(s, b"data: nonsense\n\n");
        }),
        ("malformed", |s| s.write_all(b"no HTTP at all\r\n\r\n").unwrap()),
        ("connect", |_| ()),
    ];
    for (i, (kind, answer)) in cases.into_iter().enumerate() {
        let server = Server::new(move |_, stream| answer(stream));
        let report = run(&server.url, &["--requests", "2", "--concurrency", "1"]);
        assert_eq!(kinds(&report), [(kind, 2)].into(), "case {i}: {report:?}");
        assert_eq!((report.requests, report.done, report.failed), (2, 0, 2), "case {i}");
        assert!(report.e2e_ms.is_none(), "case {i}: a failed request has no end to time");
        assert_eq!(report.ttft_ms.is_some(), kind == "cut", "case {i}");
    }
}

#[test]
fn the_report_says_why_in_the_servers_words() {
    let server = Server::new(|_, s| server::plain(s, "429 Too Many Requests", "{\"error\":{\"message\":\"slow  down\"}}"));
    let report = report(&server.url, &["--requests", "1"]);
    let expect = r#"status 429 Too Many Requests: {"error":{"message":"slow down"}}"#;
    assert_eq!(report.runs[0].errors["status_429"].example, expect);
    assert!(report.to_string().contains(expect), "{report:?}");
}

#[test]
fn a_servers_words_do_nothing_to_a_terminal() {
    let error = "{\"error\":{\"message\":\"\u{1b}]0;mine\u{7}\u{9b}2J\"}}";
    let server = Server::new(move |asked, s| match asked.path.as_str() {
        "/v1/models" => server::plain(s, "200 OK", r#"{"data":[{"id":"\u001b[31mred\u202e"}]}"#),
        _ => server::plain(s, "500 Internal Server Error", error),
    });
    let asked = Args { model: None, ..args(&server.url, &["--requests", "1"]) };
    let report = loadtest::run(&asked).unwrap();
    assert_eq!(server.asked()[1].body["model"], "\u{1b}[31mred\u{202e}", "it is asked by its own name");
    let failed = loadtest::run(&Args { warmup: 1, ..asked }).unwrap_err().to_string();
    let shut = Server::new(move |_, s| server::plain(s, "500 Internal Server Error", error));
    let no_model = loadtest::run(&Args { model: None, ..args(&shut.url, &[]) }).unwrap_err().to_string();
    for text in [report.to_string(), loadtest::page::html(&report), failed, no_model] {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}'), "{text:?}");
    }
    assert!(report.to_string().starts_with("\\u{1b}[31mred"), "{report}");
}

#[test]
fn nobody_listening_is_a_failure_to_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let report = run(&url, &["--requests", "3"]);
    assert_eq!(kinds(&report), [("connect", 3)].into());
    let error = loadtest::run(&args(&url, &["--requests", "3", "--warmup", "2"])).unwrap_err();
    assert!(error.to_string().starts_with("all 2 warm-up requests failed"), "{error}");
}

#[test]
fn a_silent_server_is_a_timeout() {
    // It holds the connection until the client gives up, which ends the read.
    let server = Server::new(|_, stream| server::wait_until_closed(stream));
    let report = run_with(&Args { timeout: 1, ..args(&server.url, &["--requests", "1"]) });
    assert_eq!(kinds(&report), [("timeout", 1)].into(), "{report:?}");
}

#[test]
fn clients_that_leave_hang_up_in_the_middle() {
    static HUNG_UP: AtomicUsize = AtomicUsize::new(0);
    let server = Server::new(|_, stream| {
        server::begin(stream);
        let text = chunk("a");
        // 300 MB at most: far more than the buffers between the two hold, so that only a client that left ends it early.
        for _ in 0..5_000_000 {
            if write!(stream, "{:x}\r\n{text}\r\n", text.len()).is_err() {
                HUNG_UP.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    });
    let report = run(&server.url, &["--requests", "4", "--concurrency", "2", "--disconnect", "1", "--max-tokens", "8"]);
    assert_eq!((report.done, report.left, report.failed), (0, 4, 0), "{report:?}");
    assert!((4..=16).contains(&report.output_tokens), "each leaves after 1 to 4 pieces: {report:?}");
    drop(server);
    assert_eq!(HUNG_UP.load(Ordering::SeqCst), 4);
}

#[test]
fn clients_whose_answers_end_before_they_leave_are_counted() {
    let server = Server::new(|_, stream| answer_well(stream, &["a"], 1));
    let report = report(&server.url, &["--requests", "40", "--disconnect", "1", "--max-tokens", "1000"]);
    let run = &report.runs[0];
    assert_eq!(run.left + run.stayed, 40, "{report}");
    assert!(run.stayed > 0 && report.to_string().contains(&format!("stayed      {} clients", run.stayed)), "{report}");
}

#[test]
fn as_many_clients_as_asked_for_are_there_at_once() {
    // Nobody is answered before four are there: with fewer, every request would run into its timeout.
    let together = Barrier::new(4);
    let server = Server::new(move |_, stream| {
        together.wait();
        answer_well(stream, &["a"], 1);
    });
    let report = run(&server.url, &["--requests", "8", "--concurrency", "4"]);
    assert_eq!(report.done, 8, "{report:?}");
}

#[test]
fn warmup_is_sent_first_and_not_reported() {
    let server = Server::new(|_, stream| answer_well(stream, &["a"], 1));
    let report = run(&server.url, &["--requests", "3", "--warmup", "2", "--concurrency", "1"]);
    assert_eq!((report.requests, report.output_tokens), (3, 3));
    let asked = server.asked();
    assert_eq!(asked.len(), 5);
    let prompts: std::collections::BTreeSet<String> = asked.iter().map(|a| a.body["messages"].to_string()).collect();
    assert_eq!(prompts.len(), 5, "the warm-up's prompts are not asked again");
}

#[test]
fn a_second_turn_carries_the_first_answer() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"turns\":[\"one\",\"two\"]}\n").unwrap();
    let json = tempfile::NamedTempFile::new().unwrap();
    let server = Server::new(|_, stream| answer_well(stream, &["a", "b"], 2));
    let paths = [file.path(), json.path()].map(|p| p.to_str().unwrap().to_owned());
    let more = ["--requests", "2", "--prompts", &paths[0], "--json", &paths[1], "--key", "k", "--ignore-eos"];
    let report = report(&format!("{}/v1", server.url), &more);

    let asked: Vec<Asked> = server.asked();
    assert_eq!(asked[0].path, "/v1/chat/completions");
    assert!(asked[0].head.contains(&"authorization: Bearer k".to_owned()), "{:?}", asked[0].head);
    let body = &asked[1].body;
    let expect = serde_json::json!([
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "ab"},
        {"role": "user", "content": "two"}
    ]);
    assert_eq!(body["messages"], expect);
    assert_eq!((&body["model"], &body["stream"], &body["ignore_eos"]), (&"tiny".into(), &true.into(), &true.into()));

    let written: serde_json::Value = serde_json::from_slice(&std::fs::read(json.path()).unwrap()).unwrap();
    assert_eq!(written, serde_json::from_str::<serde_json::Value>(&report.json()).unwrap());
    let run = &written["runs"][0];
    assert_eq!((&written["version"], &run["output_tokens"], &run["output_tokens_from"]), (&2.into(), &4.into(), &"usage".into()));
    assert_eq!((&run["rows"][1]["end"], &run["rows"][1]["output_tokens"]), (&"done".into(), &2.into()));
    assert_eq!(run["quantiles"]["ttft_ms"].as_array().unwrap().len(), 201);
}

#[test]
fn the_model_is_the_servers_first_unless_named() {
    let server = Server::new(|asked, stream| match asked.path.as_str() {
        "/v1/models" => server::plain(stream, "200 OK", r#"{"data":[{"id":"first"},{"id":"second"}]}"#),
        _ => answer_well(stream, &["a"], 1),
    });
    let report = loadtest::run(&Args { model: None, ..args(&server.url, &["--requests", "1"]) }).unwrap();
    assert_eq!(report.setting.model, "first");
    assert_eq!(server.asked()[1].body["model"], "first");

    let empty = Server::new(|_, stream| server::plain(stream, "200 OK", r#"{"data":[]}"#));
    let error = loadtest::run(&Args { model: None, ..args(&empty.url, &[]) }).unwrap_err();
    assert!(error.to_string().contains("give --model"), "{error}");
}

#[test]
fn arguments_out_of_range_are_refused() {
    for more in [
        ["--concurrency", "0"],
        ["--requests", "0"],
        ["--max-tokens", "0"],
        ["--temperature", "-1"],
        ["--temperature", "NaN"],
        ["--disconnect", "1.5"],
        ["--timeout", "0"],
        ["--rate", "0"],
        ["--ramp", "5"],
        ["--sweep", "1,0"],
        ["--arrivals", "uniform"],
        ["--duration", "0"],
        ["--random-prompt", "9..3"],
        ["--groups", "3"],
        ["--speed", "2"],
        ["--slo", "ttft=fast"],
        ["--slow-reader-rate", "0.5"],
        ["--duration", "90000"],
        ["--svg", "plot.svg"],
    ] {
        assert!(Command::try_parse_from(["loadtest", "http://box"].iter().chain(&more)).is_err(), "{more:?}");
    }
    for (more, why) in [
        (vec!["--requests", "3", "--duration", "5"], "--duration"),
        (vec!["--rate", "3", "--concurrency", "5"], "--rate"),
        (vec!["--rate", "3", "--sweep", "1,2"], "--sweep"),
        (vec!["--trace", "t.jsonl", "--rate", "3"], "--trace"),
        (vec!["--keys", "file", "--key", "k"], "--key"),
    ] {
        let error = Command::try_parse_from(["loadtest", "http://box"].iter().chain(&more)).unwrap_err().to_string();
        assert!(error.contains("cannot be used with") && error.contains(why), "{more:?}: {error}");
    }
    for (more, why) in [
        (vec!["--arrivals", "gamma"], "--arrivals: it needs --rate"),
        (vec!["--rate", "3", "--arrivals", "poisson", "--burstiness", "2"], "--burstiness: it needs --arrivals gamma"),
        (vec!["--max-in-flight", "3"], "--max-in-flight: it needs --rate"),
        (vec!["--rate", "3", "--max-in-flight", "4000000000"], "ulimit -n"),
        (vec!["--rate", "3", "--warmup-seconds", "3"], "--warmup-seconds: it needs an open loop with --duration"),
        (vec!["--rate", "900000", "--duration", "3600"], "--duration: 3600 s at this rate are 3240000000 conversations"),
        (vec!["--json", "/no/such/folder/report.json"], "/no/such/folder/report.json: its folder is not there"),
        (vec!["--keys", "/no/such/file"], "/no/such/file: "),
        (vec!["--trace", "/no/such/file"], "/no/such/file: "),
        (vec!["--key", "a=b:1", "--key", "hunter2"], "--key number 2: it must be NAME=SECRET:WEIGHT"),
    ] {
        let error = loadtest::run(&args("http://box", &more)).unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("hunter2"), "{more:?}: {error}");
    }
    let error = loadtest::run(&args("https://box", &[])).unwrap_err();
    assert!(error.to_string().contains("https is not supported"), "{error}");
}
