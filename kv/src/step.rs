//! What a step is: the vocabulary that scheduler and worker share. Plain data, nothing that owns memory of the device.

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

/// How a row's next token is drawn. Temperature 0 is greedy, and then nothing else here matters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    pub temperature: f32,
    /// Keep the smallest set of tokens whose probability reaches this; 1 keeps all.
    pub top_p: f32,
    /// Keep this many of the likeliest tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep tokens at least this likely, relative to the likeliest; 0 keeps all.
    pub min_p: f32,
    pub seed: u64,
}

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

/// A draw at the row's last token of this step. The random key is `(sampling.seed, index)` and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draw {
    pub sampling: Sampling,
    /// Index of the drawn token among the row's generated tokens, from 0.
    pub index: u32,
    /// Ids that must not be drawn now (the stop tokens of a row with `ignore_eos` or below `min_tokens`).
    pub banned: Vec<u32>,
}

/// One row of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    pub seq: SeqId,
    pub input: Input,
    /// Position of the first input token, counted from the start of the sequence.
    pub start: u32,
    /// Blocks that hold positions `0 .. start + input.count()`, in order; block 0 where the row's window reads no position any more.
    #[serde(with = "raw")]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowResult {
    pub seq: SeqId,
    pub token: Result<u32, RowFault>,
}

/// What comes back for a step: a result for each row that had a [`Draw`], in the step's order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepDone {
    pub id: StepId,
    pub results: Vec<RowResult>,
    /// Time from launch to the last token's arrival, microseconds.
    pub micros: u64,
}

/// A table as the bytes of its numbers, little-endian: most of a step is tables, and number by number they would take longer to write and
/// to read than everything else that is done for it.
mod raw {
    use super::BlockId;
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};
    use std::fmt;

    pub(super) fn serialize<S: Serializer>(table: &[BlockId], to: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(table.len() * size_of::<u32>());
        table.iter().for_each(|block| bytes.extend_from_slice(&block.0.to_le_bytes()));
        to.serialize_bytes(&bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<BlockId>, D::Error> {
        from.deserialize_bytes(Bytes)
    }

    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = Vec<BlockId>;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("the bytes of a table of blocks, four each")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
            match bytes.as_chunks() {
                (blocks, []) => Ok(blocks.iter().map(|block| BlockId(u32::from_le_bytes(*block))).collect()),
                _ => Err(E::invalid_length(bytes.len(), &self)),
            }
        }
    }
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
