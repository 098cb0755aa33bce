//! One snapshot of the whole service. The Scheduler actor publishes it after every turn; readers never ask an actor.

use serde::Serialize;

/// What the service is doing. Counts are totals since the start unless they say otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Rows that own blocks now.
    pub running: u32,
    /// Rows in the queue now: not yet admitted, or preempted.
    pub waiting: u32,
    /// Steps at the worker now.
    pub steps_in_flight: u32,
    /// Steps done.
    pub steps: u64,
    /// Time of the last step, microseconds.
    pub last_step_micros: u64,
    pub preemptions: u64,
    /// Times the model was lost and opened again.
    pub restarts: u64,
    /// When to come again if the queue is full, from the rate at which requests end.
    pub retry_after_s: u32,
    pub draining: bool,
    /// The model was lost and is being opened again; rows wait meanwhile.
    pub opening: bool,
    /// Why nothing is served any more; None while all is well.
    pub lost: Option<String>,
    pub kv: KvStats,
    pub memory: MemoryStats,
    pub tokens: TokenStats,
}

/// KV bytes by holder; rows + prefix + held + free = budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct KvStats {
    pub budget_bytes: u64,
    pub block_bytes: u64,
    pub rows_bytes: u64,
    pub prefix_bytes: u64,
    pub held_bytes: u64,
    pub free_bytes: u64,
}

impl From<kv::Ledger> for KvStats {
    fn from(l: kv::Ledger) -> Self {
        let bytes = |blocks: u32| u64::from(blocks) * l.block_bytes;
        KvStats {
            budget_bytes: bytes(l.total),
            block_bytes: l.block_bytes,
            rows_bytes: bytes(l.rows),
            prefix_bytes: bytes(l.prefix),
            held_bytes: bytes(l.held),
            free_bytes: bytes(l.free),
        }
    }
}

/// Bytes that the device's allocator holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStats {
    pub weight_bytes: u64,
    pub active_bytes: u64,
    pub cache_bytes: u64,
    pub peak_bytes: u64,
}

/// Tokens since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TokenStats {
    /// Of admitted prompts, cached ones included.
    pub prompt: u64,
    /// Of admitted prompts, not computed because their prefix was there.
    pub cached: u64,
    pub generated: u64,
}
