//! One snapshot of the whole service. The Scheduler actor publishes it after every turn; readers never ask an actor.

use metrics::WorkerCause;
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
    /// Why nothing is served, until the model is back if it can be; None while all is well.
    pub lost: Option<String>,
    pub worker: WorkerStats,
    pub kv: KvStats,
    pub memory: MemoryStats,
    pub tokens: TokenStats,
}

/// What runs the model, and how its watchdog sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WorkerStats {
    /// `process`, or `in-process`.
    pub mode: &'static str,
    pub state: WorkerState,
    /// Of the worker process, while there is one.
    pub pid: Option<u32>,
    /// How long the oldest step at the worker has taken, and may take, as of the watchdog's last look; 0 without a step.
    pub step_age_ms: u64,
    pub step_deadline_ms: u64,
    /// Losses, by cause.
    pub exits: u64,
    pub hangs: u64,
    pub ipc: u64,
    /// Of the last loss.
    pub last_loss: Option<String>,
    /// Why requests are refused.
    pub down: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// The model is being opened.
    #[default]
    Loading,
    Ready,
    /// The model was lost; it will be opened again after a pause.
    Lost,
    /// It was lost too often, or for good.
    Down,
}

impl WorkerStats {
    pub(crate) fn lost(&mut self, cause: WorkerCause, reason: String) {
        *match cause {
            WorkerCause::Exit => &mut self.exits,
            WorkerCause::Hang => &mut self.hangs,
            WorkerCause::Ipc => &mut self.ipc,
        } += 1;
        self.last_loss = Some(reason);
    }

    pub(crate) fn losses(&self) -> [(WorkerCause, u64); 3] {
        [(WorkerCause::Exit, self.exits), (WorkerCause::Hang, self.hangs), (WorkerCause::Ipc, self.ipc)]
    }
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
