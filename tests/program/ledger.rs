//! Five times as many rows as the KV budget holds: all are answered, as if each had been alone, and the budget holds.
//!
//! What `/metrics` shows is looked at here from outside, as often as it can be asked. That no single step goes over the budget
//! is shown in the crate `actors`, whose tests look at every step.

use crate::common::{Answer, LOOK, Server, all_at_once, completion, total};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Of five to seven tokens.
const PROMPTS: [&str; 4] = ["The boat left the harbour and", "Once upon a time there was a", "The three largest rivers are", "To tie a knot, first"];
/// With the prompt this is more than two blocks of 32 tokens: a row that is admitted has room for its next block, and outgrows it.
const TOKENS: [u64; 5] = [60, 61, 62, 63, 64];
const BLOCKS_A_ROW: u64 = 3;
const ROWS: u64 = 12;
/// How often each prompt is asked for with each length: one after the other, so that equal ones are not together.
const ROUNDS: usize = 3;

fn body(prompt: &str, max_tokens: u64) -> Value {
    completion(json!(prompt), json!({"max_tokens": max_tokens, "ignore_eos": true}))
}

#[test]
fn five_times_too_many_rows_are_all_answered_within_the_budget() {
    let (alone, block_bytes) = alone();
    let budget = ROWS * BLOCKS_A_ROW * block_bytes;
    // One block more stays empty, and is part of what may be taken.
    let given = budget + block_bytes;
    let server = Server::of_default_model(&["--batch", "16", "--kv-budget", &given.to_string()]);
    assert_eq!(server.metric("coxswain:kv_budget_bytes", ""), budget);

    let asked: Vec<(&str, u64)> = (0..ROUNDS).flat_map(|_| TOKENS.iter().flat_map(|n| PROMPTS.map(|p| (p, *n)))).collect();
    let bodies: Vec<Value> = asked.iter().map(|(prompt, n)| body(prompt, *n)).collect();
    assert_eq!(bodies.len() as u64, ROWS * 5);
    let done = AtomicBool::new(false);
    let (answers, most) = thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&server, budget, &done));
        let answers = all_at_once(server.addr, "/v1/completions", &bodies);
        done.store(true, Ordering::SeqCst);
        (answers, watching.join().unwrap())
    });
    for ((answer, body), (prompt, n)) in answers.iter().zip(&bodies).zip(asked) {
        assert_eq!((answer.finish.as_str(), answer.completion_tokens), ("length", n), "{body}");
        let (_, whole) = alone.iter().find(|(of, _)| *of == prompt).unwrap();
        // The shorter answers are the beginning of the longest. A half character at a cut's end is not given out.
        let text = answer.text.trim_end_matches('\u{fffd}');
        assert!(whole.text.starts_with(text) && (n < TOKENS[4] || whole.text == answer.text), "{body}: {:?} and alone {:?}", answer.text, whole.text);
    }
    let preemptions: u64 = answers.iter().map(|a| a.preemptions).sum();
    assert!(preemptions > 0, "the pool never ran dry, so this shows nothing");
    assert_eq!(server.metric("vllm:num_preemptions_total", ""), preemptions);
    assert!(most > budget / 2, "the most that was seen in use is {most} of {budget}");
    server.idle();
    assert_eq!(server.metric("coxswain:kv_bytes", r#"holder="rows""#), 0);
    assert_eq!(server.metric("coxswain:invariant_violations_total", ""), 0);
}

/// Each prompt's longest answer with nobody beside it, and a block's size.
fn alone() -> (Vec<(&'static str, Answer)>, u64) {
    let server = Server::of_default_model(&["--kv-budget", "200MB"]);
    let answers = PROMPTS.map(|p| (p, server.complete(&body(p, TOKENS[4])))).to_vec();
    assert_eq!(server.metric("vllm:num_preemptions_total", ""), 0);
    (answers, server.stats()["kv"]["block_bytes"].as_u64().unwrap())
}

/// Looks at the page until all is done; gives the most bytes that were seen in use.
fn watch(server: &Server, budget: u64, done: &AtomicBool) -> u64 {
    let mut most = 0;
    while !done.load(Ordering::SeqCst) {
        let page = server.get("/metrics").body();
        let bytes = |holder: &str| total(&page, "coxswain:kv_bytes", &format!("holder=\"{holder}\""));
        let used = bytes("rows") + bytes("prefix") + bytes("scratch");
        assert!(used <= budget, "{used} bytes of {budget}:\n{page}");
        assert!(used + bytes("free") <= budget, "{page}");
        most = most.max(used);
        // A step takes ten times this: none is missed, and the model keeps its core.
        thread::sleep(LOOK);
    }
    most
}
