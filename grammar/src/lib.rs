//! Grammars over a model's tokens: JSON Schemas and Lark grammars become, draw by draw, the ids that may be drawn.
//!
//! The work is llguidance's; this crate is its only door. Pure: no clock, no I/O. It may never know MLX, actors or HTTP.
//!
//! - [`vocabulary`]: the tokens, as bytes; made once a model. [`guide`]: one answer's way through a grammar.
//! - [`check_schema`]: what a schema may ask of the compiler.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bounds;
pub mod guide;
pub mod vocabulary;

pub use bounds::check as check_schema;
pub use guide::{Grammar, Guide};
pub use vocabulary::{Token, Vocabulary};

/// Of an error only what a client can use: one line, and nothing of where this program was.
fn reason(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("no reason is known");
    // A regular expression's error names its cause last.
    let line = match lines.next_back() {
        Some(last) if first.ends_with(':') => format!("{first} {last}"),
        _ => first.to_owned(),
    };
    line.chars().take(REASON_CHARS_MAX).collect()
}

const REASON_CHARS_MAX: usize = 300;
