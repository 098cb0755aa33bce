//! Grammars over a model's tokens: JSON Schemas and Lark grammars become, draw by draw, the ids that may be drawn.
//!
//! The work is llguidance's; this crate is its only door. Pure: no clock, no I/O. It may never know MLX, actors or HTTP.
//!
//! - [`vocabulary`]: the tokens, as bytes; made once a model. [`guide`]: one answer's way through a grammar.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod guide;
pub mod vocabulary;

pub use guide::{Grammar, Guide};
pub use vocabulary::{Token, Vocabulary};

/// Of an error only what a client can use: one line, and nothing of where this program was.
fn reason(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason is known");
    line.chars().take(REASON_CHARS_MAX).collect()
}

const REASON_CHARS_MAX: usize = 300;
