//! Load on any OpenAI-compatible chat endpoint: a seeded workload, a closed loop of clients, a report.
//!
//! This crate may never know MLX or the actors: it sees the service as a client does, over HTTP.
//!
//! - [`workload`]: which prompts, in which order, and which clients leave early. Pure.
//! - [`http`], [`sse`]: one streamed request.
//! - [`chat`]: what is sent and what a chunk says.
//! - [`client`]: one request from its intended start to its end, timed.
//! - [`runner`]: the loop. [`report`]: percentiles, table, JSON. [`cli`]: the command's arguments.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod chat;
pub mod cli;
pub mod client;
pub mod http;
pub mod report;
pub mod runner;
pub mod sse;
pub mod workload;

pub use cli::{Args, run};
pub use report::Report;
