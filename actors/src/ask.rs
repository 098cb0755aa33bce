//! What a client asks of the service and what it hears back. No HTTP here: `api` maps these to wire types.

pub use dialects::{Choice, Dialect, Piece, Reasoning, Tool};
pub use grammar::Grammar;

use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::Semaphore;

/// One request, its fields already of the right types. Ranges that depend on the model are checked by the Request actor.
#[derive(Debug, Clone)]
pub struct Ask {
    /// `x-request-id`, the client's or ours.
    pub id: String,
    /// The answer's own id, which no other one has.
    pub answer: String,
    pub key: Key,
    pub prompt: Prompt,
    pub params: Params,
    pub form: Form,
}

/// The form that an answer is to have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Form {
    /// Whose calls are recognised in the answer, and come out well-formed. A chat template sees them only if `kwargs` has them.
    pub tools: Vec<Tool>,
    pub choice: Choice,
    /// More than one call an answer is allowed.
    pub parallel: bool,
    /// What all of the answer is to be, its reasoning aside. Not together with tools.
    pub grammar: Option<Grammar>,
}

/// Who asks.
#[derive(Debug, Clone)]
pub struct Key {
    /// Shares of the machine are between these numbers.
    pub number: u32,
    /// A label of series and log lines: it must come from the operator, never from a request.
    pub name: Arc<str>,
    /// Its share relative to other keys, 1 at least.
    pub weight: u32,
    /// A permit for each of its requests in the house; None: as many as there is room for.
    pub rows: Option<Arc<Semaphore>>,
    /// Tokens that it was served since the start, prompts and answers.
    pub tokens: Arc<AtomicU64>,
}

impl Default for Key {
    /// Everybody, where there are no keys.
    fn default() -> Self {
        Key { number: 0, name: "anonymous".into(), weight: 1, rows: None, tokens: Arc::default() }
    }
}

/// What the model is to continue.
#[derive(Debug, Clone)]
pub enum Prompt {
    /// Chat messages as the template sees them: objects with `role` and a string `content`; `kwargs` go to the template too.
    Chat { messages: Vec<Value>, kwargs: Map<String, Value> },
    /// Text as it is; the tokenizer adds its special tokens.
    Text(String),
    /// Token ids as they are.
    Ids(Vec<u32>),
}

/// Sampling and limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// None: `usual_tokens`.
    pub max_tokens: Option<u32>,
    /// What nobody asked for is cut to what the context holds; None: all that it holds.
    pub usual_tokens: Option<u32>,
    pub min_tokens: u32,
    pub temperature: f32,
    pub top_p: f32,
    /// 0: off.
    pub top_k: u32,
    pub min_p: f32,
    /// None: a random one, reported in [`Timings`].
    pub seed: Option<u64>,
    /// Matched on text, across token borders; not part of the answer.
    pub stop: Vec<String>,
    pub ignore_eos: bool,
    /// Subtracted from the logits of ids that were generated before: once, and for each time.
    pub presence_penalty: f32,
    pub frequency_penalty: f32,
    /// Logits of ids of prompt and answer are divided by it where positive, and multiplied where not; 1: off.
    pub repetition_penalty: f32,
    /// Added to the logits of these ids, each named once.
    pub logit_bias: Vec<(u32, f32)>,
    /// Each token's log-probability is told, and those of so many of the likeliest.
    pub logprobs: Option<u8>,
    /// Within a key, the lower number goes first.
    pub priority: i32,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            max_tokens: None,
            usual_tokens: None,
            min_tokens: 0,
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            seed: None,
            stop: Vec::new(),
            ignore_eos: false,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            logit_bias: Vec::new(),
            logprobs: None,
            priority: 0,
        }
    }
}

/// What a Request actor tells its client. Exactly one `Done` or `Failed` ends the list.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Accepted: it will be answered. Nothing before this but `Failed`.
    Began {
        prompt_tokens: u32,
        seed: u64,
    },
    /// What is final: no half character, nothing that may still become a stop string or a mark of the model's family. `tokens` of the answer, not told
    /// before, stand behind it: 0 if they were told with an earlier piece. `logprobs`, where they were asked for, are of these tokens.
    Said {
        pieces: Vec<Piece>,
        tokens: u32,
        logprobs: Vec<TokenLogprob>,
    },
    Done {
        finish: Finish,
        /// Which of the request's stop strings ended it, by its place among them.
        stop: Option<usize>,
        usage: Usage,
        timings: Timings,
    },
    Failed(Failure),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// A stop token or a stop string.
    Stop,
    /// `max_tokens` or the context's end.
    Length,
    /// A stop token, after at least one whole call of a tool.
    Calls,
}

/// A token of an answer, and what was likely in its place. Logarithms are natural, and of the model's own probabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// Maybe half a character.
    pub bytes: Vec<u8>,
    pub logprob: f32,
    /// The likeliest tokens, likeliest first.
    pub top: Vec<(Vec<u8>, f32)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt_tokens: u32,
    pub cached_tokens: u32,
    pub completion_tokens: u32,
}

/// Milliseconds, and what happened on the way.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timings {
    pub queue_ms: f64,
    pub prefill_ms: f64,
    pub decode_ms: f64,
    pub ttft_ms: f64,
    pub preemptions: u32,
    pub restarts: u32,
    pub seed: u64,
}

/// Why a request is not answered. `api` decides the status: Invalid 400, Busy 429, Unavailable 503, Fault 500.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failure {
    /// `param` names the field; the message says what was wrong and what is allowed.
    #[error("{message}")]
    Invalid { param: &'static str, code: &'static str, message: String },
    #[error("{message}")]
    Busy { message: String, retry_after_s: u32 },
    #[error("{message}")]
    Unavailable { message: String, retry_after_s: u32 },
    /// This row alone failed (its logits were not finite, say).
    #[error("{message}")]
    Fault { message: String },
}
