//! Tool calls and reasoning, as each family of models writes them: read from an answer as it comes, and said as a grammar.
//!
//! This crate is pure: no clock, no thread, no I/O. It may never know tokens, MLX, actors or HTTP.
//!
//! - `dialect`: the families: their names, their marks, and how a chat template gives them away.
//! - `reader`: an answer's text becomes pieces: reasoning, text, calls. `out`: the pieces; `marks`: text that may still become a mark.
//! - `form`: one call, character by character: `json_call` (over `json`), `xml_call`, `gemma_call`.
//! - `offer`: what a client offers, and what its schemas say of one argument.
//! - `whole`: the pieces of an answer as one message.
//! - `grammar`: a grammar under which calls come out well-formed.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod dialect;
mod form;
mod gemma_call;
mod grammar;
mod json;
mod json_call;
mod marks;
mod offer;
mod out;
mod reader;
mod whole;
mod xml_call;

#[cfg(test)]
mod tests;

pub use dialect::{Dialect, Reasoning, UnknownName, ends_in_reasoning};
pub use grammar::{grammar, json_behind_reasoning};
pub use offer::{Choice, Tool};
pub use out::Piece;
pub use reader::Reader;
pub use whole::{Call, Whole, whole};
