//! What may be recorded, one method an event. All are cheap enough to be called for every token.

use crate::labels::{DisconnectPhase, FinishReason, Invariant, Refusal, StepPhase, WorkerCause};
use crate::registry::Metrics;
use std::time::Duration;

/// Bytes of the KV pool by holder; the four add up to what the pool has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KvBytes {
    /// In some live row's table, or released while a step in flight may still write it.
    pub rows: u64,
    /// Cached prefixes that no live row uses.
    pub prefix: u64,
    pub scratch: u64,
    pub free: u64,
}

/// Bytes that the device's allocator holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MlxMemory {
    pub active: u64,
    pub cache: u64,
    pub peak: u64,
}

/// What one step carried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepShape {
    pub rows: u32,
    pub prefill_tokens: u32,
    pub decode_tokens: u32,
}

/// A request that ended, however it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestDone {
    pub reason: FinishReason,
    pub prompt_tokens: u32,
    /// Over all answers.
    pub generation_tokens: u32,
    /// Of the longest answer; the same as `generation_tokens` when `n` is 1.
    pub longest_answer_tokens: u32,
    /// As asked for; None if the request left it open.
    pub max_tokens: Option<u32>,
    /// Answers that the request asked for; None for all but the first of them, so that a request is counted once.
    pub n: Option<u32>,
    /// Arrival to admission; None if it never was admitted: vLLM's queue time ends with the first scheduling, too.
    pub queue: Option<Duration>,
    /// Admission to the first token; None if it ended before.
    pub prefill: Option<Duration>,
    /// First token to the last; None if there was no first.
    pub decode: Option<Duration>,
    /// Arrival to the end.
    pub e2e: Duration,
}

impl Metrics {
    /// Rows in the batch and in the queue, now.
    pub fn set_rows(&self, running: usize, waiting: usize) {
        self.service.running.set(running as i64);
        self.service.waiting.set(waiting as i64);
    }

    /// The pool by holder, and the budget that it is cut from. Usage is the rows' share: a cached prefix can be evicted at any time.
    pub fn set_kv(&self, bytes: KvBytes, budget_bytes: u64) {
        self.memory.rows.set(bytes.rows as i64);
        self.memory.prefix.set(bytes.prefix as i64);
        self.memory.scratch.set(bytes.scratch as i64);
        self.memory.free.set(bytes.free as i64);
        self.memory.budget.set(budget_bytes as i64);
        let total = bytes.rows + bytes.prefix + bytes.free;
        self.memory.usage.set(if total == 0 { 0.0 } else { bytes.rows as f64 / total as f64 });
    }

    pub fn set_mlx_memory(&self, memory: MlxMemory) {
        self.memory.mlx_active.set(memory.active as i64);
        self.memory.mlx_cache.set(memory.cache as i64);
        self.memory.mlx_peak.set(memory.peak as i64);
    }

    /// The pool's shape: tokens a block holds, blocks in the pool, dtype of K and V. Replaces what was said before.
    pub fn set_cache_config(&self, block_tokens: u32, blocks: u32, dtype: &str) {
        self.memory.cache_config.reset();
        self.memory.cache_config.with_label_values(&[block_tokens.to_string().as_str(), blocks.to_string().as_str(), dtype]).set(1.0);
    }

    /// What is loaded. Replaces what was said before.
    pub fn set_loaded(&self, model: &str, dtype: &str, tier: &str, device: &str) {
        self.service.loaded.reset();
        self.service.loaded.with_label_values(&[model, dtype, tier, device]).set(1.0);
    }

    /// A step was launched.
    pub fn step(&self, shape: StepShape) {
        self.steps.batch_rows.observe(f64::from(shape.rows));
        self.steps.tokens[0].observe(f64::from(shape.prefill_tokens));
        self.steps.tokens[1].observe(f64::from(shape.decode_tokens));
        self.steps.iteration_tokens.observe(f64::from(shape.prefill_tokens) + f64::from(shape.decode_tokens));
    }

    /// One part of a step took this long.
    pub fn step_phase(&self, phase: StepPhase, took: Duration) {
        self.steps.seconds[phase as usize].observe(took.as_secs_f64());
    }

    /// A request was admitted for the first time: the tokens of its prompt, and how many a cached prefix had. Never for a retry or
    /// a resumption, which would count one prompt many times.
    pub fn prefix_lookup(&self, prompt_tokens: u32, cached_tokens: u32) {
        self.memory.prefix_queries.inc_by(u64::from(prompt_tokens));
        self.memory.prefix_hits.inc_by(u64::from(cached_tokens));
    }

    /// A row's prompt is computed: all its tokens, and how many of them a cached prefix spared.
    pub fn prefilled(&self, prompt_tokens: u32, cached_tokens: u32) {
        self.requests.prompt_tokens.inc_by(u64::from(prompt_tokens));
        self.requests.prompt_tokens_cached.inc_by(u64::from(cached_tokens));
    }

    /// A row's first token, this long after the request arrived.
    pub fn first_token(&self, since_arrival: Duration) {
        self.requests.generation_tokens.inc();
        self.times.first_token.observe(since_arrival.as_secs_f64());
    }

    /// A later token of a row, this long after the one before.
    pub fn next_token(&self, since_last: Duration) {
        self.requests.generation_tokens.inc();
        self.times.inter_token.observe(since_last.as_secs_f64());
    }

    pub fn preempted(&self) {
        self.service.preemptions.inc();
    }

    /// A request ended. Call it once a request.
    pub fn finished(&self, done: &RequestDone) {
        self.requests.ended[done.reason as usize].inc();
        self.times.e2e.observe(done.e2e.as_secs_f64());
        done.queue.iter().for_each(|queue| self.times.queue.observe(queue.as_secs_f64()));
        if let Some(prefill) = done.prefill {
            self.times.prefill.observe(prefill.as_secs_f64());
            self.times.inference.observe((prefill + done.decode.unwrap_or_default()).as_secs_f64());
        }
        if let Some(decode) = done.decode {
            self.times.decode.observe(decode.as_secs_f64());
            // One token has no time between tokens.
            if done.longest_answer_tokens > 1 {
                self.times.per_output_token.observe(decode.as_secs_f64() / f64::from(done.longest_answer_tokens - 1));
            }
        }
        self.requests.prompt.observe(f64::from(done.prompt_tokens));
        self.requests.generation.observe(f64::from(done.generation_tokens));
        self.requests.longest_answer.observe(f64::from(done.longest_answer_tokens));
        done.n.iter().for_each(|n| self.requests.n.observe(f64::from(*n)));
        if let Some(max_tokens) = done.max_tokens {
            self.requests.max_tokens.observe(f64::from(max_tokens));
        }
    }

    /// A request was refused before it became a row.
    pub fn refused(&self, reason: Refusal) {
        self.service.refused[reason as usize].inc();
    }

    /// A client left while its row was in this phase.
    pub fn disconnected(&self, phase: DisconnectPhase) {
        self.service.disconnects[phase as usize].inc();
    }

    /// The model was lost.
    pub fn worker_lost(&self, cause: WorkerCause) {
        self.losses.restarts[cause as usize].inc();
    }

    /// A row that ran when the model was lost runs again.
    pub fn recovered(&self) {
        self.losses.recovered.inc();
    }

    /// A row runs again and computes so many tokens anew.
    pub fn recomputed(&self, tokens: u32) {
        self.losses.recomputed.inc_by(u64::from(tokens));
    }

    pub fn invariant_violated(&self, id: Invariant) {
        self.service.violations[id as usize].inc();
    }
}
