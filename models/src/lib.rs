//! Tokenizers, templates, weights, families, sampling and MLX: everything that knows what a model is.
//!
//! This crate may never know actors or HTTP.

pub mod engine;
