//! Blocks, bytes and prefixes of KV memory, and the words in which a step names them.
//!
//! This crate is pure: no clock, no thread, no I/O, no unseeded randomness. It may never know MLX, actors or HTTP.
//!
//! - [`step`]: ids, and what a step is: rows, tokens, blocks.
//! - [`settle`]: what the scheduler asks of the pool, and what it gets.

pub mod settle;
pub mod step;

pub use settle::{Grant, Ledger, Settled, Want, Wants};
pub use step::{BlockId, Draw, Input, RowFault, RowResult, Sampling, SeqId, Step, StepDone, StepId, StepRow};
