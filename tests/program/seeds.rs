//! A seeded answer is the same alone and in a crowd, and a seed that was chosen for a client gives its answer again.

use crate::common::{Answer, Server, all_at_once, chat};
use serde_json::{Value, json};

/// Eight ways to draw, each with its own prompt and seed.
fn seeded() -> Vec<Value> {
    let drawn = |text: &str, seed: u64, more: Value| {
        let mut body = chat(text, json!({"temperature": 1, "seed": seed, "max_tokens": 24}));
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    vec![
        drawn("Describe a harbour in the morning.", 1, json!({})),
        drawn("Describe a harbour in the morning.", 2, json!({})),
        drawn("Invent a name for a rowing boat.", u64::MAX, json!({"top_p": 0.8})),
        drawn("Tell me about a storm.", 7, json!({"top_k": 20})),
        drawn("What do sailors eat?", 1 << 53, json!({"min_p": 0.05})),
        drawn("Write one line of a sea shanty.", 99, json!({"top_p": 0.9, "top_k": 50})),
        drawn("Who was the first to cross the Atlantic?", 4_000_000_000, json!({"top_p": 0.95, "min_p": 0.02, "top_k": 200})),
        drawn("How is a knot tied?", 0, json!({"ignore_eos": true})),
    ]
}

/// Fifteen neighbours: greedy and drawn, short and long, some of them with the seeds and the prompts of the eight.
fn others() -> Vec<Value> {
    let one = |i: u64| {
        let text = ["List three rivers.", "Why is the sea salt? Explain it to a child, slowly and with an example.", "Describe a harbour in the morning."]
            [i as usize % 3];
        let more = match i % 5 {
            0 => json!({}),
            1 => json!({"temperature": 1, "seed": i}),
            2 => json!({"temperature": 1.7, "seed": 1000 + i, "top_p": 0.7}),
            3 => json!({"temperature": 0.6}),
            _ => json!({"temperature": 1, "seed": 7, "top_k": 3}),
        };
        let mut body = chat(&format!("{text} ({i})"), more);
        body["max_tokens"] = json!(8 + i);
        body
    };
    (0..15).map(one).collect()
}

fn said(answer: &Answer) -> (&str, &str, u64) {
    (&answer.text, &answer.finish, answer.seed)
}

#[test]
fn a_seed_gives_the_same_text_alone_and_among_others() {
    let server = Server::of_default_model(&["--batch", "32", "--kv-budget", "200MB"]);
    let bodies = seeded();
    let alone: Vec<Answer> = bodies.iter().map(|body| server.chat(body)).collect();
    for (answer, body) in alone.iter().zip(&bodies) {
        assert_eq!(Some(answer.seed), body["seed"].as_u64());
    }
    assert_ne!(alone[0].text, alone[1].text, "two seeds, one prompt");

    let mut crowd = others();
    // Between the others and not in a row of their own: neither order of arrival nor place in the batch may matter.
    for (i, body) in bodies.iter().enumerate() {
        crowd.insert(i * 2 + 1, body.clone());
    }
    assert_eq!(crowd.len(), 23);
    let answers = all_at_once(server.addr, "/v1/chat/completions", &crowd);
    for (i, answer) in alone.iter().enumerate() {
        assert_eq!(said(&answers[i * 2 + 1]), said(answer), "{}", bodies[i]);
    }

    let first = server.chat(&chat("Invent a name for a ship.", json!({"temperature": 1, "max_tokens": 16})));
    let again = server.chat(&chat("Invent a name for a ship.", json!({"temperature": 1, "max_tokens": 16, "seed": first.seed})));
    assert_eq!(said(&again), said(&first));
}
