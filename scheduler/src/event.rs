//! What a caller hears back: of a turn, of a row, of the whole.

use crate::submit::KeyId;
use kv::{Ledger, Logprobs, RowFault, SeqId, Step, Wants};

/// What to do after a settlement.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// Launch this step.
    Step(Step),
    /// A row was preempted to make room, or the list was overtaken by events: settle this one too, then call `settled` again.
    Settle(Wants),
    /// Nothing can run now, until the next submit, cancel or step done; after a loss, until the model is back.
    Idle,
}

/// What happened to a row. Events of one row come in order; those of a step come in the step's order.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// First admission. `cached` prompt tokens need not be computed; `wait_us` is the time since submit.
    Admitted { seq: SeqId, cached: u32, wait_us: u64 },
    /// A generated token, `index` from 0. Never a stop token that ends the row.
    Token { seq: SeqId, token: u32, index: u32, logprobs: Option<Box<Logprobs>> },
    /// The row made room, for older ones or because it is paused; it will resume by itself, or once it is not paused any more.
    Preempted { seq: SeqId },
    /// Admitted again after preemption or loss of the model: `recomputed` tokens are computed anew, `cached` are not.
    Resumed { seq: SeqId, cached: u32, recomputed: u32 },
    /// The last event of a row that was not cancelled; exactly one (S2).
    Finished {
        seq: SeqId,
        reason: Reason,
        /// The last generated token was a stop token; it was counted but not delivered.
        stop_token: bool,
        counts: Counts,
    },
}

impl Event {
    /// The row that it is about.
    pub fn seq(&self) -> SeqId {
        match self {
            Event::Admitted { seq, .. } | Event::Token { seq, .. } | Event::Preempted { seq } | Event::Resumed { seq, .. } | Event::Finished { seq, .. } => {
                *seq
            }
        }
    }
}

/// Why a row ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    Stop,
    /// `max_tokens` were generated.
    Length,
    /// This row alone failed.
    Fault(RowFault),
}

/// A row's numbers, in tokens and times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub prompt: u32,
    /// Prompt tokens found in the prefix index at the first admission.
    pub cached: u32,
    /// A final stop token included.
    pub generated: u32,
    pub preemptions: u32,
    /// Losses of the model while the row ran.
    pub restarts: u32,
}

/// The whole, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Rows that hold blocks.
    pub running: u32,
    /// Of these, rows whose known tokens are not all computed yet.
    pub prefilling: u32,
    /// Rows not admitted yet.
    pub waiting: u32,
    /// Rows that ran before and wait to resume.
    pub preempted: u32,
    pub steps_in_flight: u32,
    /// Known tokens of the running rows.
    pub running_tokens: u64,
    /// Prompt tokens of the waiting rows.
    pub waiting_tokens: u64,
    /// Tokens computed a second time since the start.
    pub recomputed_tokens: u64,
    pub draining: bool,
    /// As of the last settlement.
    pub ledger: Ledger,
    /// Rows whose known tokens are not all computed yet: how many are, those in flight included.
    pub prefills: Vec<(SeqId, u32)>,
    /// Keys with rows here, by number.
    pub keys: Vec<KeyLoad>,
}

/// One key's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLoad {
    pub key: KeyId,
    pub running: u32,
    /// Preempted rows included.
    pub waiting: u32,
    /// Weighted tokens charged so far: the smallest admits next.
    pub charged: u64,
}
