//! Tokenizers, templates, weights, families, sampling and MLX: everything that knows what a model is.
//!
//! This crate may never know actors or HTTP.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod attend;
pub mod check;
pub mod config;
pub mod engine;
pub mod families;
pub mod gguf;
pub mod mlx;
pub mod mlx_engine;
pub mod model;
pub mod packing;
pub mod rope;
pub mod sample;
pub mod text;
pub mod weights;
