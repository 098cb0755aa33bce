//! The numbers to choose when a service starts. Everything has a limit, and each limit says why it is what it is.

use crate::ask::{Dialect, Reasoning};
use std::time::Duration;

/// Limits of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Rows that share a step. 16: on every device measured, a step of 16 rows costs less than two of 8.
    pub batch: u32,
    /// Tokens of one prompt computed in one step. It bounds how long a long prompt can hold up everybody's next token.
    pub prefill_chunk: u32,
    /// Tokens of one packed step, prefill and decode together: room for a chunk beside a full batch.
    pub step_tokens: u32,
    /// Steps in flight, 1 or 2. With 2 the device never waits for the planner; the tokens are the same.
    pub depth: u32,
    /// Requests that may wait beyond the `batch` that run. One more is refused as `Busy`.
    pub queue: u32,
    /// Keep finished prefixes in free blocks for the next prompt that begins the same.
    pub prefix_cache: bool,
    /// A step that takes longer, and many times longer than recent ones would lead to expect, counts as a hung model; the first step of a
    /// life may take four times as long. Above any honest step: a chunk on a slow CPU takes seconds.
    pub step_deadline: Duration,
    /// Loading that takes longer counts as a hung model. Above any honest load: hundreds of gigabytes from a slow disk.
    pub load_deadline: Duration,
    /// When the model is lost so often within a minute, requests that wait are told so instead of waiting on.
    pub deaths_max: u32,
    /// How the model says calls of tools, and reasoning; None: as its chat template shows.
    pub dialect: Option<Dialect>,
    pub reasoning: Option<Reasoning>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            batch: 16,
            prefill_chunk: 512,
            step_tokens: 512 + 16,
            depth: 2,
            queue: 1024,
            prefix_cache: true,
            step_deadline: Duration::from_secs(30),
            load_deadline: Duration::from_secs(1800),
            deaths_max: 3,
            dialect: None,
            reasoning: None,
        }
    }
}
