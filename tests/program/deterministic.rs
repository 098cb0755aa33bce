//! `--deterministic`: a request's text is the same alone and among others, whatever the order, the width and the chunks.

use crate::common::{Answer, Server, all_at_once, chat};
use serde_json::{Value, json};

const REQUESTS: usize = 32;

/// Greedy and drawn, short and long prompts, some alike and some with a common start.
fn requests() -> Vec<Value> {
    let long = "The harbour master keeps a book of every ship that comes and goes, its cargo, its crew and its debts. ".repeat(3);
    let text = |i: usize| match i % 4 {
        0 => format!("Name {} rivers.", i / 4 + 2),
        1 => format!("{long}What is in the book? Answer {i}."),
        2 => format!("Describe {} storms at sea.", i / 8 + 2),
        _ => format!("Why is the sea salt, and river {i} not?"),
    };
    let one = |i: usize| {
        let more = match i % 3 {
            0 => json!({}),
            1 => json!({"temperature": 1, "seed": i}),
            _ => json!({"temperature": 1.4, "seed": 1000 + i, "top_p": 0.9, "top_k": 100}),
        };
        let mut body = chat(&text(i), more);
        // Some answers outgrow what their rows were admitted with.
        body["max_tokens"] = json!(if i % 4 == 2 { 40 } else { 3 + i % 4 });
        body
    };
    (0..REQUESTS).map(one).collect()
}

/// An order of all requests: multiples of a number that shares no factor with how many there are.
fn order(round: usize) -> Vec<usize> {
    let step = [1, 5, 11, 19, 27][round];
    (0..REQUESTS).map(|i| (i * step + 3 * round) % REQUESTS).collect()
}

fn said(answer: &Answer) -> (&str, &str) {
    (&answer.text, &answer.finish)
}

#[test]
fn a_text_is_the_same_alone_and_in_five_orders_among_others() {
    let bodies = requests();
    let alone: Vec<Answer> = {
        let server = Server::of_default_model(&["--deterministic", "--batch", "1", "--depth", "1", "--kv-budget", "200MB"]);
        bodies.iter().map(|body| server.chat(body)).collect()
    };
    // Room for few of them at a time, and chunks that end anywhere. (That a row which is computed again has the same bits is shown in
    // the crate `models`, whose test reads an answer again as part of its prompt.)
    let server = Server::of_default_model(&["--deterministic", "--batch", "16", "--kv-budget", "22MB", "--prefill-chunk", "100"]);
    for round in 0..5 {
        let order = order(round);
        let crowd: Vec<Value> = order.iter().map(|i| bodies[*i].clone()).collect();
        for (answer, i) in all_at_once(server.addr, "/v1/chat/completions", &crowd).iter().zip(order) {
            assert_eq!(said(answer), said(&alone[i]), "round {round}: {}", bodies[i]);
        }
    }
}
