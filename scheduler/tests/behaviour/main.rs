//! What the scheduler promises, one promise a test: tables of submits against a real pool, with scripted tokens.

#![allow(clippy::unwrap_used)]

mod bench;
mod ends;
mod fairness;
mod pipeline;
mod prefill;
mod recovery;
mod sharing;
mod snapshot;
mod window;
