//! A long prompt among streams: they go on while it is read, a token each for every chunk of it.

use crate::common::{Server, chat};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const CHAT: &str = "/v1/chat/completions";
const STREAMS: usize = 8;
const CHUNK: u64 = 128;

fn stream(text: &str, max_tokens: u32) -> Value {
    chat(text, json!({"max_tokens": max_tokens, "ignore_eos": true, "stream": true, "stream_options": {"include_usage": true}}))
}

#[test]
fn streams_go_on_while_a_long_prompt_is_read() {
    let server = Server::of_default_model(&["--kv-budget", "400MB", "--prefill-chunk", &CHUNK.to_string()]);
    let mut streams: Vec<_> = (0..STREAMS).map(|i| server.post(CHAT, &stream(&format!("Tell me about river number {i}."), 160))).collect();
    streams.iter_mut().for_each(|stream| drop(stream.texts(1)));
    let come: Vec<AtomicU64> = (0..STREAMS).map(|_| AtomicU64::new(0)).collect();
    let (during, prompt) = thread::scope(|scope| {
        for (stream, come) in streams.iter_mut().zip(&come) {
            scope.spawn(move || {
                while let Some(event) = stream.event().unwrap() {
                    come.fetch_add(u64::from(event.contains("\"content\"")), Ordering::SeqCst);
                }
            });
        }
        let before: Vec<u64> = come.iter().map(|c| c.load(Ordering::SeqCst)).collect();
        let mut long = server.post(CHAT, &stream(&"The harbour master keeps a book of every ship that comes and goes. ".repeat(100), 2));
        long.texts(1);
        let during: Vec<u64> = come.iter().zip(&before).map(|(c, b)| c.load(Ordering::SeqCst) - b).collect();
        let mut usage = 0;
        while let Some(event) = long.event().unwrap() {
            if let Ok(event) = serde_json::from_str::<Value>(&event) {
                usage = event["usage"]["prompt_tokens"].as_u64().unwrap_or(usage);
            }
        }
        (during, usage)
    });
    let chunks = prompt / CHUNK;
    assert!(chunks >= 10, "{prompt} tokens");
    // Texts may hold several tokens, and the first and the last chunk's may be counted outside.
    for come in during {
        assert!(come >= chunks * 2 / 3, "a stream had {come} texts while {chunks} chunks were read");
    }
}
