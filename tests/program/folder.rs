//! A folder in MLX's layout, end to end: the oracle's greedy ids come out of the API.

use crate::common::{Server, TINY, Tensors, chat, completion, copy, tokenizer};
use serde_json::json;
use std::path::Path;

fn serves(name: &str) {
    let (_root, dir) = copy(name);
    tokenizer(&dir);
    let server = Server::of(&dir.to_string_lossy(), &["--kv-budget", "10MB"]);
    let mut golden = Tensors::read(&Path::new(TINY).join(name).join("golden.safetensors"));
    let (ids, greedy) = (golden.ids("ids_0"), golden.ids("greedy_0"));
    let answer = server.complete(&completion(json!(ids), json!({"max_tokens": greedy.len()})));
    let want: String = greedy.iter().map(|id| format!("<{id}>")).collect();
    assert_eq!((answer.text, answer.finish.as_str()), (want, "length"), "{name}");

    let models = server.get("/v1/models").json();
    assert_eq!((models["data"][0]["id"].as_str(), models["data"][0]["max_model_len"].as_u64()), (Some(name), Some(2048)));
    let mut refused = server.post("/v1/chat/completions", &chat("Hello", json!({})));
    let error = refused.json();
    assert_eq!(refused.status, 400, "{error}");
    assert!(error["error"]["message"].as_str().is_some_and(|m| m.contains("no chat template")), "{error}");
}

#[test]
fn a_plain_folder_gives_the_oracles_ids() {
    serves("llama_tied");
}

#[test]
fn a_folder_of_mixed_bits_gives_the_oracles_ids() {
    serves("llama_q4_mixed");
}
