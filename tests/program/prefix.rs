//! Prompts that begin alike are computed once, and the answers are those of prompts computed whole.

use crate::common::{Answer, Server, all_at_once, chat};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const REQUESTS: u64 = 16;
/// Tokens of a block: what is shared is whole blocks.
const BLOCK: u64 = 32;

/// Of more than 400 tokens.
fn system_prompt() -> String {
    "You are the harbour master's clerk. Answer in one short sentence. Ships pay by length, in silver, before they leave. ".repeat(16)
}

fn bodies() -> Vec<Value> {
    let question = |i: u64| format!("Ship number {i} is {} feet long. What must its captain do?", 20 + i);
    let body = |i| {
        let messages = json!([{"role": "system", "content": system_prompt()}, {"role": "user", "content": question(i)}]);
        json!({"messages": messages, "temperature": 0, "max_tokens": 12})
    };
    (0..REQUESTS).map(body).collect()
}

/// All at once on a server of their own: the answers, and prompt tokens in all, those spared, and the mean time to a first token, in ms.
fn asked(args: &[&str]) -> (Vec<Answer>, u64, u64, f64) {
    let args = [&["--kv-budget", "400MB"], args].concat();
    let server = Server::of_default_model(&args);
    let answers = all_at_once(server.addr, CHAT, &bodies());
    let first_ms = answers.iter().map(|a| a.ttft_ms).sum::<f64>() / REQUESTS as f64;
    let (all, spared) = (server.metric("vllm:prompt_tokens_total", ""), server.metric("vllm:prompt_tokens_cached_total", ""));
    (answers, all, spared, first_ms)
}

#[test]
fn a_system_prompt_that_many_share_is_computed_once() {
    let (whole, all, none, whole_ms) = asked(&["--no-prefix-cache"]);
    let (shared, _, spared, shared_ms) = asked(&[]);
    assert_eq!(none, 0);
    let common = (all / REQUESTS - 40) / BLOCK * BLOCK;
    assert!(common >= 384, "a prompt has {} tokens", all / REQUESTS);
    assert!(spared >= (REQUESTS - 1) * common, "{spared} tokens were spared, of {all}");
    for (i, (a, b)) in whole.iter().zip(&shared).enumerate() {
        assert_eq!(a.text, b.text, "ship {i}");
    }
    // For whoever reads along: a figure, not a condition.
    println!("mean time to the first token of {REQUESTS}: {whole_ms:.0} ms computed whole, {shared_ms:.0} ms shared");
}

#[test]
fn the_second_turn_of_a_chat_finds_the_first_with_its_answer() {
    let server = Server::of_default_model(&["--kv-budget", "200MB"]);
    let question = "Name five things that one needs on a boat, and say why one needs each of them.";
    let first = server.chat(&chat(question, json!({"max_tokens": 60})));
    let turns =
        json!([{"role": "user", "content": question}, {"role": "assistant", "content": first.text}, {"role": "user", "content": "Which is the first?"}]);
    let second = server.chat(&json!({"messages": turns, "temperature": 0, "max_tokens": 12}));
    // The last token of the first turn was drawn but never read.
    let known = first.prompt_tokens + first.completion_tokens - 1;
    assert!(second.prompt_tokens > known);
    assert!(second.cached_tokens >= known / BLOCK * BLOCK, "{} of {known} tokens were found", second.cached_tokens);
}
