//! A model whose layers all have a window: a row of any length runs in the few blocks of it, with the answer that it has where
//! everything fits.

use crate::common::{Server, completion, copy, ended, tokenizer};
use serde_json::{Value, json};
use std::path::Path;

/// Positions of the window, and tokens of a chunk: with two steps in flight 72 positions, in 3 blocks, and 2 more.
const WINDOW: u64 = 40;
const OPTIONS: [&str; 6] = ["--device", "cpu", "--batch", "1", "--prefill-chunk", "16"];
const BLOCKS: u64 = 5;

fn set(dir: &Path, fields: Value) {
    let file = dir.join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    std::fs::write(file, config.to_string()).unwrap();
}

#[test]
fn a_prompt_longer_than_the_budget_is_answered_by_its_window() {
    let (_root, dir) = copy("llama_tied");
    tokenizer(&dir);
    let model = dir.to_string_lossy();
    let prompt: Vec<u32> = (0..400).map(|i| (i * i + 7 * i) % 500).collect();
    let body = completion(json!(prompt), json!({"max_tokens": 100}));
    let with = |budget: &str| Server::of(&model, &[&OPTIONS[..], &["--kv-budget", budget]].concat());

    let (everything, block_bytes) = {
        let server = with("10MB");
        (server.complete(&body), server.stats()["kv"]["block_bytes"].as_u64().unwrap())
    };
    // The one that stays empty is part of the budget.
    let tight = (block_bytes * (BLOCKS + 1)).to_string();
    let refused = with(&tight).post("/v1/completions", &body).json();
    assert_eq!(refused["error"]["code"], "kv_budget_exceeded", "some layer sees all: {refused}");

    set(&dir, json!({"model_type": "mistral", "sliding_window": WINDOW}));
    let roomy = with("10MB").complete(&body);
    assert_ne!(roomy.text, everything.text, "a window that changes nothing shows nothing");
    let server = with(&tight);
    server.logged("window: 40 positions in every layer, so that a row holds 5 blocks at most");
    assert_eq!(server.stats()["kv"]["budget_bytes"], block_bytes * BLOCKS);
    let answer = server.complete(&body);
    assert_eq!((&answer.text, answer.completion_tokens, answer.preemptions), (&roomy.text, 100, 0));
    server.idle();
    assert_eq!(server.metric("coxswain:invariant_violations_total", ""), 0);

    let said = ended(&[&["fit", &*model, "--kv-budget", &tight], &OPTIONS[..]].concat());
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("window     40 positions in every layer, so that a row holds 5 blocks at most\n"), "{said}");
    let last: Vec<&str> = said.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(last, ["2048", "5", "1", "batch"], "{said}");

    // With a block less no long row could ever end.
    let refused = with(&(block_bytes * BLOCKS).to_string()).post("/v1/completions", &body).json();
    assert_eq!(refused["error"]["code"], "kv_budget_exceeded", "{refused}");
}
