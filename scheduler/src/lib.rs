//! Which rows run, in which order, with which tokens: sequences, plans and fairness.
//!
//! This crate is pure: time, randomness and memory come as arguments. It may never know MLX, actors or HTTP.
//! A turn is: [`Scheduler::begin_turn`] → the pool settles the wants → [`Scheduler::settled`] → perhaps a step.
//!
//! - [`limits`]: what bounds everything here.
//! - [`submit`]: what a caller hands in, and why it may be refused.
//! - [`event`]: what a caller hears back.
//! - [`core`]: the state machine, one file for each thing that can happen to it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod core;
pub mod event;
pub mod limits;
pub mod submit;

pub use crate::core::Scheduler;
pub use event::{Counts, Event, KeyLoad, Reason, Snapshot, Turn};
pub use limits::Limits;
pub use submit::{KeyId, Refusal, Submit, Wishes};
