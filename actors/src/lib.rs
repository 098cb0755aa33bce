//! The four actors (Request, Scheduler, KV-budget, Model), their messages and their supervision.
//!
//! Thin: an actor notes, takes a turn, carries out. This crate may never know HTTP. From outside there is one handle, [`Service`].
//!
//! - [`ask`]: what a client asks and what it hears back.
//! - [`service`]: the handle: ask, card, readiness, stats, drain. [`answer`]: the client's end of one request.
//! - [`start`]: puts the actors up, which open the model. [`home`]: where that is. [`options`]: the numbers to choose.
//! - [`stats`]: one snapshot of everything, published after every turn. [`rows`]: a line for each request in the house.
//!
//! Inside, an actor a file: `request`, `scheduling`, `budget`, `model`, and between them `messages`. What they need to know but
//! not to be: `check`, `prompt`, `writer`, `clock`, `rate` are pure; `pace` and `deaths`, too; `reporting` fills
//! stats and metrics, `trace` a request's spans; `speech` is the model family's way to say calls and reasoning; `room` is what the first opening of the model brings about.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod answer;
pub mod ask;
pub mod home;
pub mod options;
pub mod rows;
pub mod service;
pub mod start;
pub mod stats;

mod budget;
mod check;
mod clock;
mod deaths;
mod messages;
mod model;
mod pace;
#[cfg(test)]
mod panic_tests;
mod prompt;
mod rate;
mod reporting;
mod request;
mod room;
mod scheduling;
mod speech;
mod trace;
mod writer;

pub use answer::Answer;
pub use ask::{Ask, Choice, Dialect, Event, Failure, Finish, Form, Grammar, Key, Params, Piece, Prompt, Reasoning, Timings, TokenLogprob, Tool, Usage};
pub use home::{Home, Opener, Program};
pub use options::Options;
pub use rows::{Phase, RowStats};
pub use service::{Drained, ModelCard, Service};
pub use start::{begin, start};
pub use stats::{KvStats, MemoryStats, Stats, TokenStats, WorkerState, WorkerStats};
