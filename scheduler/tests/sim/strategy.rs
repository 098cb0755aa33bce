//! Random shapes and events. Tiny alphabets and tiny pools: sharing, shortage and preemption are the rule here, not the exception.

use proptest::prelude::*;
use scheduler::Limits;
use std::ops::Range;

pub(crate) const BLOCK_TOKENS: u32 = 4;
pub(crate) const CONTEXT: u32 = 40;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) limits: Limits,
    pub(crate) blocks: u32,
}

/// One row to submit, before it has an id.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// How many tokens of one of a few common beginnings, and which.
    pub(crate) shared: (u32, u32),
    pub(crate) own: Vec<u32>,
    pub(crate) max_tokens: u32,
    pub(crate) min_tokens: u32,
    pub(crate) stop: bool,
    pub(crate) ignore_eos: bool,
    pub(crate) key: u32,
    pub(crate) weight: u32,
    pub(crate) priority: i32,
    pub(crate) fault_at: Option<u32>,
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Submit(Ask),
    /// Cancels one of the rows that were submitted, by number; often one that is over already.
    Cancel(u32),
    /// Plans a turn, applies what comes meanwhile, and carries the turn out.
    Turn(Vec<Op>),
    /// The oldest step in flight is done.
    Done,
    Lose,
}

pub(crate) fn shape() -> impl Strategy<Value = Shape> {
    let sizes = (1..7u32, 1..17u32, 2..24u32, 1..3u32, 1..12u32);
    (sizes, prop_oneof![3 => 6..14u32, 1 => 14..40u32], any::<bool>()).prop_map(|(sizes, blocks, prefix_cache)| {
        let (batch, prefill_chunk, step_tokens, depth, queue) = sizes;
        let pool_tokens = u64::from(blocks * BLOCK_TOKENS);
        let limits = Limits { batch, prefill_chunk, step_tokens, context: CONTEXT, depth, queue, pool_tokens, block_tokens: BLOCK_TOKENS, prefix_cache };
        Shape { limits, blocks }
    })
}

fn ask() -> impl Strategy<Value = Ask> {
    let prompt = ((0..25u32, 0..2u32), prop_oneof![1 => Just(Vec::new()), 3 => prop::collection::vec(0..2u32, 0..12)]);
    let length = (0..22u32, 0..6u32, any::<bool>(), prop::bool::weighted(0.2));
    let who = (0..3u32, 0..4u32, -1..2i32, prop::option::weighted(0.1, 0..8u32));
    (prompt, length, who).prop_map(|(prompt, length, who)| Ask {
        shared: prompt.0,
        own: prompt.1,
        max_tokens: length.0,
        min_tokens: length.1,
        stop: length.2,
        ignore_eos: length.3,
        key: who.0,
        weight: who.1,
        priority: who.2,
        fault_at: who.3,
    })
}

fn simple() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => ask().prop_map(Op::Submit),
        3 => (0..40u32).prop_map(Op::Cancel),
        16 => Just(Op::Done),
        1 => Just(Op::Lose),
    ]
}

pub(crate) fn ops(count: Range<usize>) -> impl Strategy<Value = Vec<Op>> {
    let meanwhile = prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(simple(), 1..3)];
    let op = prop_oneof![3 => simple(), 2 => meanwhile.prop_map(Op::Turn)];
    prop::collection::vec(op, count)
}
