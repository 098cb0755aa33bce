//! Tokenizers, templates, weights, families, sampling and MLX: everything that knows what a model is.
//!
//! This crate may never know actors or HTTP.
//!
//! - [`engine`]: what runs steps. [`worker`]: the loop on the thread that owns it.
//! - [`mlx_engine`]: the engine that serves. [`synthetic`]: an engine without weights, for tests and simulations.
//! - [`model`]: one packed pass. [`packing`]: a step laid out, [`tiles`]: in passes of a fixed shape. [`families`]: the equations. [`attend`]: the pool, and rows.
//!   [`kernels`]: what MLX has no kernel for. [`rope`], [`sample`]: positions, and drawing tokens.
//! - [`config`], [`weights`], [`gguf`]: what is on disk. [`text`]: everything between text and ids.
//! - [`check`]: a model held against the oracle's recordings.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod attend;
pub mod check;
pub mod config;
pub mod engine;
pub mod families;
pub mod gguf;
pub mod kernels;
pub mod mlx;
pub mod mlx_engine;
pub mod model;
pub mod packing;
pub mod rope;
pub mod sample;
pub mod synthetic;
pub mod text;
pub mod tiles;
pub mod weights;
pub mod worker;
