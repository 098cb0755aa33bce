//! The load test's figures against the server's own, of the same requests: two clocks on either side of one connection.

use crate::common::{Server, program};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Stdio;

/// What the two may differ by: of the server's figure.
const SHARE: f64 = 0.05;

/// What is on the client's clock and not on the server's: a connection, a request's head and body read and parsed, its prompt made
/// into tokens, and the way back over loopback. Each is a fraction of a millisecond; all of them wait for a core where others work.
const ON_THE_WAY_MS: f64 = 10.0;

/// Sums over labels of all series with this name's beginning.
struct Page(BTreeMap<String, f64>);

impl Page {
    fn of(server: &Server) -> Page {
        let mut sums = BTreeMap::new();
        for line in server.get("/metrics").body().lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            *sums.entry(name.to_owned()).or_default() += value.parse::<f64>().unwrap();
        }
        Page(sums)
    }

    fn get(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no series {name}"))
    }
}

/// What a run changed.
struct Change {
    before: Page,
    after: Page,
}

impl Change {
    fn of(&self, name: &str) -> f64 {
        self.after.get(name) - self.before.get(name)
    }

    /// Of a histogram of seconds.
    fn mean_ms(&self, name: &str) -> f64 {
        1e3 * self.of(&format!("{name}_sum")) / self.of(&format!("{name}_count"))
    }
}

/// Runs the command, which must end well, and gives its only run.
fn loadtest(server: &Server, more: &[&str]) -> (Value, Change) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("report.json");
    let before = Page::of(server);
    let mut command = program();
    command.args(["loadtest", &format!("http://{}", server.addr), "--json", json.to_str().unwrap()]).args(more);
    let status = command.stdout(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(0));
    // The server counts a request once its client has been told.
    server.idle();
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    (report["runs"][0].clone(), Change { before, after: Page::of(server) })
}

fn agree(what: &str, client: f64, server: f64) {
    println!("{what}: {client:.2} ms felt, {server:.2} ms by the server: {:+.2} %", 100.0 * (client / server - 1.0));
    assert!((client - server).abs() <= SHARE * server + ON_THE_WAY_MS, "{what}: {client} ms and {server} ms");
}

fn number(run: &Value, path: &str) -> f64 {
    run.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {path}"))
}

#[test]
fn what_clients_feel_is_what_the_server_says() {
    let server = Server::of_default_model(&["--kv-budget", "200MB", "--batch", "4"]);
    let closed = ["--concurrency", "6", "--requests", "12"];
    let open = ["--rate", "2", "--requests", "8", "--arrivals", "gamma", "--burstiness", "0.5"];
    for load in [&closed[..], &open] {
        let lengths = ["--random-prompt", "40..100", "--random-output", "8..24", "--ignore-eos", "--seed", "5"];
        let (run, change) = loadtest(&server, &[load, &lengths].concat());
        let requests = number(&run, "/requests");
        assert_eq!((number(&run, "/done"), change.of("vllm:request_success_total")), (requests, requests));
        assert_eq!(number(&run, "/prompt_tokens"), change.of("vllm:prompt_tokens_total"));
        assert_eq!(number(&run, "/output_tokens"), change.of("vllm:generation_tokens_total"));
        agree("TTFT", number(&run, "/ttft_ms/mean"), change.mean_ms("vllm:time_to_first_token_seconds"));
        agree("E2E", number(&run, "/e2e_ms/mean"), change.mean_ms("vllm:e2e_request_latency_seconds"));
        // A piece of text is a token, unless a letter takes more than one: the time between pieces, over the tokens between them.
        let between_tokens = number(&run, "/output_tokens") - requests;
        assert_eq!(between_tokens, change.of("vllm:inter_token_latency_seconds_count"));
        let itl = number(&run, "/itl_ms/mean") * number(&run, "/itl_ms/count") / between_tokens;
        agree("ITL", itl, change.mean_ms("vllm:inter_token_latency_seconds"));
    }
}

#[test]
fn refusals_are_counted_alike_on_both_sides_and_are_no_failures() {
    let server = Server::of_default_model(&["--kv-budget", "200MB", "--batch", "1", "--queue", "2"]);
    let load = ["--rate", "1000", "--requests", "30", "--max-tokens", "8", "--ignore-eos"];
    let (run, change) = loadtest(&server, &load);
    let (done, refused) = (number(&run, "/done"), number(&run, "/refused"));
    assert_eq!((number(&run, "/failed"), done + refused), (0.0, 30.0), "{run}");
    assert!(refused > 0.0, "thirty at once found a place in a queue of two");
    assert_eq!((change.of("vllm:request_success_total"), change.of("coxswain:admissions_refused_total")), (done, refused));
    assert!(run["refusals"]["status_429"]["example"].as_str().unwrap().contains("Retry-After"), "{run}");
}
