//! `coxswain fit` says what `serve` then takes, and refuses what `serve` refuses.

use crate::common::{Server, copy, ended, tokenizer};
use std::path::Path;

fn fit(args: &[&str]) -> (Option<i32>, String, String) {
    let output = ended(&[&["fit", "--device", "cpu"], args].concat());
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// The exact bytes of a line.
fn bytes(said: &str, name: &str) -> u64 {
    let line = said.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {said}"));
    let (before, _) = line.split_once(" bytes)").unwrap();
    before.rsplit('(').next().unwrap().parse().unwrap()
}

#[test]
fn serve_takes_what_fit_said() {
    for (name, budget) in [("llama_tied", "10MB"), ("qwen3_qknorm", "auto"), ("llama_q4_mixed", "1MB")] {
        let (_root, dir) = copy(name);
        tokenizer(&dir);
        let dir = dir.to_string_lossy();
        let options = ["--kv-budget", budget, "--batch", "4", "--context", "1024"];
        let (code, said, wrong) = fit(&[&[&*dir], &options[..]].concat());
        assert_eq!((code, wrong.as_str()), (Some(0), ""), "{said}");
        let server = Server::of(&dir, &[&["--device", "cpu"], &options[..]].concat());
        let stats = server.stats();
        let took = |part: &str, field: &str| stats[part][field].as_u64().unwrap();
        assert_eq!(bytes(&said, "weights"), took("memory", "weight_bytes"), "{name}: {said}");
        assert_eq!(bytes(&said, "block"), took("kv", "block_bytes"), "{name}: {said}");
        assert_eq!(bytes(&said, "KV budget"), took("kv", "budget_bytes"), "{name}: {said}");
        assert!(said.lines().last().unwrap().ends_with("  context"), "no row may have all 2048 positions: {said}");
    }
}

#[test]
fn the_default_model_needs_no_name() {
    let (code, said, wrong) = fit(&["--kv-budget", "64MB", "--context", "2048"]);
    assert_eq!((code, wrong.as_str()), (Some(0), ""), "{said}");
    // 30 layers, 3 heads of 64, K and V in f32; a block is 32 tokens.
    assert_eq!((bytes(&said, "KV "), bytes(&said, "block")), (46_080, 46_080 * 32));
    let rows: Vec<Vec<&str>> = said.lines().skip_while(|line| !line.starts_with("positions")).skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["512", "16", "2", "budget"], ["2048", "64", "0", "budget"], ["8192", "256", "0", "context"]]);
}

#[test]
fn what_cannot_be_measured_is_named() {
    let refused = |args: &[&str], parts: &[&str]| {
        let (code, said, wrong) = fit(args);
        assert_eq!((code, said.as_str()), (Some(2), ""), "{wrong}");
        assert!(wrong.starts_with("coxswain: ") && wrong.lines().count() == 1, "{wrong}");
        assert!(parts.iter().all(|part| wrong.contains(part)), "{parts:?} in {wrong}");
    };
    let (_root, dir) = copy("llama_tied");
    refused(&[&dir.to_string_lossy()], &["tokenizer.json"]);
    tokenizer(&dir);
    let shown = dir.to_string_lossy().into_owned();
    refused(&[&shown, "--kv-budget", "1KB"], &[&shown, "--kv-budget", "1.0 KB", "24.6 KB"]);
    refused(&[&shown, "--kv-budget", "900TB"], &["--kv-budget", "900000.0 GB", "more than"]);
    refused(&[&shown, "--context", "2049"], &["--context 2049", "2048 positions"]);
    refused(&["/no/such/model"], &["MODEL /no/such/model"]);
    std::fs::remove_file(Path::new(&dir).join("config.json")).unwrap();
    refused(&[&shown], &[&shown, "config.json"]);
}
