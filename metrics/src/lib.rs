//! Every metric's name and buckets, the Prometheus registry, and the OpenTelemetry set-up.
//!
//! This crate may never know what the rest of the service does: it takes counts and durations, and holds no policy.
//!
//! - [`Metrics`]: record into it, and ask for [`Metrics::text`] when `/metrics` is scraped.
//! - [`traces`]: spans to an OpenTelemetry collector, off unless the environment names one.
//!
//! README.md beside this crate lists every series; a test holds the list and the registry together.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod buckets;
mod collector;
mod keys;
mod labels;
mod maker;
mod record;
mod registry;
mod series;
pub mod traces;

pub use keys::KeySeries;
pub use labels::{DisconnectPhase, FinishReason, Invariant, Refusal, StepPhase, WorkerCause};
pub use record::{KvBytes, MlxMemory, RequestDone, StepShape};
pub use registry::Metrics;

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

#[cfg(test)]
mod page_tests;
