//! Tokenizers, templates, weights, families, sampling and MLX: everything that knows what a model is.
//!
//! This crate may never know actors or HTTP.
//!
//! - [`engine`]: what runs steps. [`worker`]: the loop on the thread that owns it.
//! - [`synthetic`]: an engine without weights, for tests and simulations.
//! - [`text`]: everything between text and ids. [`gguf`]: the container that brings both weights and tokenizer.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod engine;
pub mod gguf;
pub mod synthetic;
pub mod text;
pub mod worker;
