//! What a caller hands in, and why it may be refused.

use kv::{Mask, Sampling, SeqId};
use std::sync::Arc;

/// Who pays for a row: an API key, by number. Shares are between keys, not between rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u32);

/// A sequence to run. Token counts are of this model's tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Submit {
    /// New: never submitted before.
    pub seq: SeqId,
    pub key: KeyId,
    /// The key's share relative to other keys; 0 counts as 1.
    pub weight: u32,
    /// Within a key, the lower number goes first (as in vLLM); equal ones go by arrival.
    pub priority: i32,
    /// At least one token.
    pub prompt: Arc<[u32]>,
    /// Tokens to generate at most, a stop token included; at least 1.
    pub max_tokens: u32,
    /// Stop tokens are banned from the draws of index below this.
    pub min_tokens: u32,
    pub stop_ids: Arc<[u32]>,
    /// Stop tokens are tokens like any other.
    pub ignore_eos: bool,
    pub sampling: Sampling,
    pub wishes: Wishes,
    /// Some: every draw of the row has a mask of its own. This is the first one's; [`crate::Scheduler::allow`] brings the others, each
    /// once the token before it is known.
    pub mask: Option<Mask>,
}

/// What a row asks of its draws beside [`Sampling`].
#[derive(Debug, Clone, PartialEq)]
pub struct Wishes {
    /// Added to the logits of these ids, each named once.
    pub bias: Vec<(u32, f32)>,
    /// Subtracted from the logit of every id that was generated before.
    pub presence: f32,
    /// The same, as many times as it was generated.
    pub frequency: f32,
    /// Logits of ids in prompt or answer are divided by this where positive, and multiplied where not; 1 changes nothing.
    pub repetition: f32,
    /// Each token's log-probability is wanted, and those of so many of the likeliest ids.
    pub logprobs: Option<u8>,
}

impl Default for Wishes {
    fn default() -> Self {
        Wishes { bias: Vec::new(), presence: 0.0, frequency: 0.0, repetition: 1.0, logprobs: None }
    }
}

/// Why a sequence is not taken. Nothing is kept of it, and no event will name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Even alone it would not fit the pool.
    NeverFits { need_tokens: u64, pool_tokens: u64 },
    /// Too many wait already. Try later.
    QueueFull { waiting: u32 },
    /// Prompt and answer exceed the context.
    TooLong { need_tokens: u64, context: u32 },
    /// No prompt token, or no token to generate.
    Empty,
    /// The service is going down.
    Draining,
}
