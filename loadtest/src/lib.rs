//! Load on any OpenAI-compatible chat endpoint: a seeded workload, clients that wait or requests that do not, a report. And load on
//! the core alone: a simulator on a virtual clock.
//!
//! This crate may never know MLX or the actors: it sees the service as a client does, over HTTP, or the core without either.
//!
//! - [`load`]: what is asked, when, and by whom: prompts, traces, arrivals, keys, limits. Pure.
//! - [`http`], [`socket`], [`sse`], [`chat`]: one streamed request, and what a chunk of its answer says.
//! - [`client`]: one request from its intended start to its end, timed; [`outcome`]: what came of it.
//! - [`runner`]: closed and open loops. [`progress`]: how they stand.
//! - [`report`]: counts, percentiles, table, JSON. [`page`]: plots. [`plain`]: a server's words in them. All pure.
//! - [`cli`]: the arguments; [`plan`]: what follows from them; [`command`]: all of it together.
//! - [`sim`]: scheduler and pool under faults, every invariant checked after every event.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod chat;
pub mod cli;
pub mod client;
pub mod command;
pub mod http;
pub mod limits;
pub mod load;
pub mod outcome;
pub mod page;
pub mod plain;
pub mod plan;
pub mod progress;
pub mod report;
pub mod runner;
pub mod sim;
pub mod socket;
pub mod sse;

pub use cli::Args;
pub use command::run;
pub use plan::LoadtestError;
pub use report::Report;
