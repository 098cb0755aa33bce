//! Tokenizers, templates, weights, families, sampling and MLX: everything that knows what a model is.
//!
//! This crate may never know actors or HTTP. Without its feature `mlx` it does not know MLX either, and without `text` no
//! tokenizer: what is left is files and the synthetic model, for programs that run no real one.
//!
//! - [`engine`]: what runs steps. [`worker`]: the loop on the thread that owns it, and the process around it. [`wire`]: what is said to it.
//! - [`mlx_engine`]: the engine that serves. [`synthetic`]: an engine without weights, for tests and simulations.
//! - [`model`]: one packed pass. [`packing`]: a step laid out, [`tiles`]: in passes of a fixed shape. [`families`]: the equations. [`attend`]: the pool, and rows.
//!   [`kernels`]: what MLX has no kernel for. [`rope`], [`sample`]: positions, and drawing tokens.
//! - [`config`], [`weights`], [`gguf`]: what is on disk. [`files`]: whether it is still the same. [`text`]: everything between text and ids.
//! - [`measure`]: what a model will take, from its headers. [`workspace`]: what a step takes, by running one.
//! - [`check`]: a model held against the oracle's recordings.

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(feature = "mlx")]
pub mod attend;
#[cfg(feature = "mlx")]
pub mod check;
#[cfg(feature = "mlx")]
pub mod config;
pub mod engine;
#[cfg(feature = "mlx")]
pub mod families;
pub mod files;
pub mod gguf;
#[cfg(feature = "header")]
pub mod header;
#[cfg(feature = "mlx")]
pub mod kernels;
#[cfg(feature = "mlx")]
pub mod measure;
#[cfg(feature = "mlx")]
pub mod mlx;
#[cfg(feature = "mlx")]
pub mod mlx_engine;
#[cfg(feature = "mlx")]
pub mod model;
#[cfg(feature = "mlx")]
pub mod packing;
mod plain;
#[cfg(feature = "mlx")]
pub mod rope;
#[cfg(feature = "mlx")]
pub mod sample;
pub mod synthetic;
#[cfg(feature = "text")]
pub mod text;
#[cfg(feature = "mlx")]
pub mod tiles;
#[cfg(feature = "mlx")]
pub mod weights;
pub mod wire;
pub mod worker;
#[cfg(feature = "mlx")]
pub mod workspace;
