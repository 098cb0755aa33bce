//! What a step is: the vocabulary that scheduler and worker share. Plain data, nothing that owns memory of the device.

use crate::draw::{Draw, Logprobs};
use crate::raw;
use serde::{Deserialize, Serialize};

/// Tokens a block holds.
pub const BLOCK_TOKENS: u32 = 32;

/// A sequence: one row's whole life, across preemption and restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeqId(pub u64);

/// A block of the pool, `1..=blocks`. Block 0 is never handed out: it stays zero on the device, padding reads it, and in a row's
/// table it stands for what lies behind the row's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlockId(pub u32);

/// A step, numbered from 1 in the order of launching.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepId(pub u64);

/// Where a row's input tokens come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// These ids, at positions `start ..`.
    Tokens(Vec<u32>),
    /// One token: what the previous step sampled for this row, still on the device.
    FromPrevious,
}

impl Input {
    /// Tokens of this row in the step.
    pub fn count(&self) -> u32 {
        match self {
            Input::Tokens(t) => t.len() as u32,
            Input::FromPrevious => 1,
        }
    }
}

/// One row of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    pub seq: SeqId,
    pub input: Input,
    /// Position of the first input token, counted from the start of the sequence.
    pub start: u32,
    /// Blocks that hold positions `0 .. start + input.count()`, in order; block 0 where the row's window reads no position any more.
    #[serde(with = "raw::table")]
    pub table: Vec<BlockId>,
    /// None while the prompt is not at its end.
    pub draw: Option<Draw>,
}

/// One packed forward pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub id: StepId,
    /// Blocks to copy `(from, to)` before anything is written: copy-on-write.
    pub copies: Vec<(BlockId, BlockId)>,
    pub rows: Vec<StepRow>,
}

impl Step {
    /// Tokens in the packed pass.
    pub fn tokens(&self) -> u32 {
        self.rows.iter().map(|r| r.input.count()).sum()
    }
}

/// Why one row of a step has no token. It ends that row alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowFault {
    /// The row's logits are not finite.
    NotFinite,
}

/// The token of one row that drew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowResult {
    pub seq: SeqId,
    pub token: Result<u32, RowFault>,
    /// Where the draw asked for them.
    pub logprobs: Option<Box<Logprobs>>,
}

impl RowResult {
    /// With nothing besides the token.
    pub fn new(seq: SeqId, token: Result<u32, RowFault>) -> RowResult {
        RowResult { seq, token, logprobs: None }
    }
}

/// What comes back for a step: a result for each row that had a [`Draw`], in the step's order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepDone {
    pub id: StepId,
    pub results: Vec<RowResult>,
    /// Time from launch to the last token's arrival, microseconds.
    pub micros: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_the_tokens_of_its_rows() {
        let row = |seq, input| StepRow { seq: SeqId(seq), input, start: 9, table: vec![BlockId(1)], draw: None };
        let rows = vec![row(1, Input::Tokens(vec![7, 8, 9])), row(2, Input::FromPrevious), row(3, Input::Tokens(vec![6, 6]))];
        assert_eq!(Step { id: StepId(1), copies: Vec::new(), rows }.tokens(), 6);
    }
}
