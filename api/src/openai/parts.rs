//! What whole answers and streams have in common: usage, timings, log-probabilities.

use super::Shape;
use crate::voice::End;
use actors::{Finish, Timings, TokenLogprob, Usage};
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Serialize)]
pub(super) struct UsageOut {
    prompt_tokens: u32,
    completion_tokens: u32,
    total_tokens: u32,
    prompt_tokens_details: Details,
}

#[derive(Serialize)]
pub(super) struct Details {
    cached_tokens: u32,
}

impl From<Usage> for UsageOut {
    fn from(u: Usage) -> Self {
        UsageOut {
            prompt_tokens: u.prompt_tokens,
            completion_tokens: u.completion_tokens,
            total_tokens: u.prompt_tokens.saturating_add(u.completion_tokens),
            prompt_tokens_details: Details { cached_tokens: u.cached_tokens },
        }
    }
}

impl UsageOut {
    /// Of all choices together: the prompt counts once.
    pub(super) fn of(ends: &[End]) -> UsageOut {
        let mut all = ends.first().map(|end| end.usage).unwrap_or_default();
        all.completion_tokens = ends.iter().map(|end| end.usage.completion_tokens).fold(0, u32::saturating_add);
        all.into()
    }
}

#[derive(Serialize)]
pub(crate) struct TimingsOut {
    queue_ms: f64,
    prefill_ms: f64,
    decode_ms: f64,
    ttft_ms: f64,
    preemptions: u32,
    restarts: u32,
    seed: u64,
}

impl From<Timings> for TimingsOut {
    fn from(t: Timings) -> Self {
        // Microseconds are the finest that a reader can use.
        let ms = |x: f64| (x * 1000.0).round() / 1000.0;
        TimingsOut {
            queue_ms: ms(t.queue_ms),
            prefill_ms: ms(t.prefill_ms),
            decode_ms: ms(t.decode_ms),
            ttft_ms: ms(t.ttft_ms),
            preemptions: t.preemptions,
            restarts: t.restarts,
            seed: t.seed,
        }
    }
}

pub(super) fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::Calls => "tool_calls",
    }
}

/// JSON has no infinity; a probability of 0 is written so by vLLM, too.
const NEVER: f32 = -9999.0;

fn of(logprob: f32) -> f32 {
    logprob.max(NEVER)
}

/// As chats and responses write them: a list of tokens, each with those that were likely in its place.
pub(crate) fn chat_logprobs(tokens: &[TokenLogprob]) -> Vec<Value> {
    let entry = |bytes: &[u8], logprob| json!({"token": String::from_utf8_lossy(bytes), "logprob": of(logprob), "bytes": bytes});
    let one = |token: &TokenLogprob| {
        let mut entry_of = entry(&token.bytes, token.logprob);
        entry_of["top_logprobs"] = token.top.iter().map(|(bytes, logprob)| entry(bytes, *logprob)).collect();
        entry_of
    };
    tokens.iter().map(one).collect()
}

/// Log-probabilities in the shape of the endpoint. `offset` is where the first token's text begins in the answer, in characters, and moves on.
pub(super) fn logprobs(shape: Shape, tokens: &[TokenLogprob], offset: &mut usize) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match shape {
        Shape::Chat => json!({"content": chat_logprobs(tokens), "refusal": null}),
        Shape::Text => {
            let entry = |bytes: &[u8], logprob: f32| (text(bytes), Value::from(of(logprob)));
            // The token itself is among them, likely or not, as OpenAI has it.
            let top = |token: &TokenLogprob| {
                let likeliest = token.top.iter().map(|(bytes, logprob)| entry(bytes, *logprob));
                likeliest.chain([entry(&token.bytes, token.logprob)]).collect::<serde_json::Map<_, _>>()
            };
            let mut at = |token: &TokenLogprob| {
                let here = *offset;
                *offset += text(&token.bytes).chars().count();
                here
            };
            json!({
                "tokens": tokens.iter().map(|token| text(&token.bytes)).collect::<Vec<String>>(),
                "token_logprobs": tokens.iter().map(|token| of(token.logprob)).collect::<Vec<f32>>(),
                "top_logprobs": tokens.iter().map(top).collect::<Vec<_>>(),
                "text_offset": tokens.iter().map(&mut at).collect::<Vec<usize>>(),
            })
        }
    }
}
