//! Load on any OpenAI-compatible chat endpoint: a seeded workload, a closed loop of clients, a report. And load on the core
//! alone: a simulator on a virtual clock.
//!
//! This crate may never know MLX or the actors: it sees the service as a client does, over HTTP, or the core without either.
//!
//! - [`workload`]: which prompts, in which order, and which clients leave early. Pure.
//! - [`http`], [`sse`]: one streamed request.
//! - [`chat`]: what is sent and what a chunk says.
//! - [`client`]: one request from its intended start to its end, timed.
//! - [`runner`]: the loop. [`report`]: percentiles, table, JSON. [`cli`]: the command's arguments.
//! - [`sim`]: scheduler and pool under faults, every invariant checked after every event.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod chat;
pub mod cli;
pub mod client;
pub mod http;
pub mod report;
pub mod runner;
pub mod sim;
pub mod sse;
pub mod workload;

pub use cli::{Args, run};
pub use report::Report;
