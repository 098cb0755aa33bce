//! Tokenizers, templates, weights, families, sampling and MLX: everything that knows what a model is.
//!
//! This crate may never know actors or HTTP.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod engine;
pub mod synthetic;
pub mod worker;
