//! The bounds of a scheduler. Everything it holds or launches is under one of these.

use kv::{Window, blocks_at_once};

/// Each field is a hard bound (S4). `Scheduler::new` raises zeros to the smallest value that makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows that may run at once; 1 serialises.
    pub batch: u32,
    /// Prompt tokens of one row in one step, and of all rows together in a step that also decodes: the longest stall of a
    /// decoding row is one such chunk.
    pub prefill_chunk: u32,
    /// Tokens of one packed step, at least 2: one to decode, one to prefill.
    pub step_tokens: u32,
    /// Positions a sequence may have, prompt and answer together.
    pub context: u32,
    /// Steps in flight: 1 or 2.
    pub depth: u32,
    /// Rows that may wait for their first admission, at least 1. Preempted rows are not counted: they were accepted already.
    pub queue: u32,
    /// Tokens that the pool can hold in total (usable blocks × tokens a block).
    pub pool_tokens: u64,
    /// Tokens a block of the pool holds: `kv::BLOCK_TOKENS` outside of tests.
    pub block_tokens: u32,
    /// Whether the pool shares prefixes. If it does, a prompt that starts like one being computed now waits for it.
    pub prefix_cache: bool,
    /// Positions that a query sees in the layer that sees most, its own included, if every layer has a window: what lies behind is
    /// given back while a row runs. None: some layer sees all.
    pub window: Option<u32>,
}

impl Limits {
    /// The same limits with zeros raised to what makes sense, and the depth in 1..=2.
    pub(crate) fn sane(self) -> Limits {
        Limits {
            batch: self.batch.max(1),
            prefill_chunk: self.prefill_chunk.max(1),
            step_tokens: self.step_tokens.max(2),
            depth: self.depth.clamp(1, 2),
            queue: self.queue.max(1),
            block_tokens: self.block_tokens.max(1),
            window: self.window.map(|tokens| tokens.max(1)),
            ..self
        }
    }

    pub(crate) fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_tokens)
    }

    pub(crate) fn window(&self) -> Option<Window> {
        self.window.map(|tokens| Window { tokens, ahead: self.depth.saturating_mul(self.prefill_chunk) })
    }

    /// Blocks that a row holds at one time at most on its way to `tokens` tokens, its first `given_up` blocks having gone back.
    pub fn blocks_at_once(&self, tokens: u32, given_up: u32) -> u32 {
        blocks_at_once(self.window(), self.block_tokens, tokens, given_up)
    }

    /// Tokens that a row may come to in this pool, when it is alone: those of all blocks, or, where the pool holds a row's window and
    /// what is ahead of it, as many as can be counted.
    pub fn row_tokens_max(&self) -> u64 {
        let limits = self.sane();
        let blocks = u64::from(limits.blocks_at_once(u32::MAX, 0));
        if blocks * u64::from(limits.block_tokens) <= self.pool_tokens { u64::from(u32::MAX) } else { self.pool_tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_raised_to_what_makes_sense() {
        let zeros = Limits {
            batch: 0,
            prefill_chunk: 0,
            step_tokens: 0,
            context: 0,
            depth: 0,
            queue: 0,
            pool_tokens: 0,
            block_tokens: 0,
            prefix_cache: false,
            window: Some(0),
        };
        let least = Limits { batch: 1, prefill_chunk: 1, step_tokens: 2, depth: 1, queue: 1, block_tokens: 1, window: Some(1), ..zeros };
        let more = Limits { batch: 7, prefill_chunk: 6, step_tokens: 5, context: 4, depth: 2, queue: 3, block_tokens: 2, window: None, ..zeros };
        for (given, sane) in [(zeros, least), (least, least), (more, more), (Limits { depth: 3, ..more }, more)] {
            assert_eq!(given.sane(), sane);
        }
    }
}
