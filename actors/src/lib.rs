//! The four actors (Request, Scheduler, KV-budget, Model), their messages and their supervision.
//!
//! Thin: an actor notes, takes a turn, carries out. This crate may never know HTTP. From outside there is one handle, [`Service`].
//!
//! - [`ask`]: what a client asks and what it hears back.
//! - [`service`]: the handle: ask, card, readiness, stats, drain. [`answer`]: the client's end of one request.
//! - [`start`]: loads the model on its own thread and puts the actors up. [`options`]: the numbers to choose.
//! - [`stats`]: one snapshot of everything, published after every turn. [`rows`]: a line for each request in the house.
//!
//! Inside, an actor a file: `request`, `scheduling`, `budget`, `model`, and between them `messages`. What they need to know but
//! not to be: `check`, `prompt`, `writer`, `clock`, `rate` are pure; `reporting` fills stats and metrics, `trace` a request's spans; `host` is the model's
//! own thread.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod answer;
pub mod ask;
pub mod options;
pub mod rows;
pub mod service;
pub mod start;
pub mod stats;

mod budget;
mod check;
mod clock;
mod host;
mod messages;
mod model;
#[cfg(test)]
mod panic_tests;
mod prompt;
mod rate;
mod reporting;
mod request;
mod scheduling;
mod trace;
mod writer;

pub use answer::Answer;
pub use ask::{Ask, Event, Failure, Finish, Params, Prompt, Timings, Usage};
pub use options::Options;
pub use rows::{Phase, RowStats};
pub use service::{Drained, ModelCard, Service};
pub use start::{Opener, start};
pub use stats::{KvStats, MemoryStats, Stats, TokenStats};
