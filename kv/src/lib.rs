//! Blocks, bytes and prefixes of KV memory, and the words in which a step names them.
//!
//! This crate is pure: no clock, no thread, no I/O, no unseeded randomness. It may never know MLX, actors or HTTP.
//!
//! - [`step`]: ids, and what a step is: rows, tokens, blocks.
//! - [`draw`]: how a token is drawn, and what is said of it.
//! - [`by_seq`]: rows by their ids.
//! - [`settle`]: what the scheduler asks of the pool, and what it gets.
//! - [`pool`]: who holds which block; the prefix index; eviction.
//! - [`geometry`]: bytes of a block and of a row's state, from the model's layers. [`window`]: what lies behind, where every layer looks back so far only.
//! - [`budget`]: the byte budget as people write it. [`fit`]: what it is worth in blocks and rows.
//! - [`invariants`]: what always holds, by name.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod budget;
pub mod by_seq;
pub mod draw;
pub mod fit;
pub mod geometry;
pub mod invariants;
pub mod pool;
pub mod settle;
pub mod step;
pub mod window;

mod raw;

pub use budget::BudgetSpec;
pub use by_seq::BySeq;
pub use draw::{Draw, Edit, Logprobs, Mask, Sampling};
pub use geometry::{Elements, Geometry, Layer, Span};
pub use invariants::{Invariant, Violation};
pub use pool::{Pool, PoolConfig};
pub use settle::{Grant, Ids, Ledger, NewBlocks, Settled, Want, Wants};
pub use step::{BLOCK_TOKENS, BlockId, Input, RowFault, RowResult, SeqId, Step, StepDone, StepId, StepRow};
pub use window::{Window, blocks_at_once};
