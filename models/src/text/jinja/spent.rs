//! What one rendering copies. Fuel counts instructions, of which one may copy any number of bytes: a text that is put to itself thirty
//! times takes sixty instructions and all memory.
//!
//! What is not granted is left out, and the rendering fails where it next prints, or at its end.

use minijinja::{Error, ErrorKind};
use std::cell::Cell;

/// Twenty times what the longest request has, and less than a second's work.
const BYTES_MAX: usize = 200_000_000;

/// A value of a list takes as much as so many bytes.
const ITEM_BYTES: usize = 24;

thread_local! {
    /// Bytes that the rendering on this thread may still copy; None once it wanted more.
    static LEFT: Cell<Option<usize>> = const { Cell::new(Some(BYTES_MAX)) };
}

/// A rendering begins.
pub(in crate::text) fn begin() {
    LEFT.set(Some(BYTES_MAX));
}

/// Whether so many more bytes may be copied, which they then are. Never again once it was not so.
pub(in crate::text) fn bytes(count: usize) -> bool {
    LEFT.set(LEFT.get().and_then(|left| left.checked_sub(count)));
    LEFT.get().is_some()
}

/// As [`bytes`], of values of a list.
pub(super) fn items(count: usize) -> bool {
    bytes(count.saturating_mul(ITEM_BYTES))
}

/// The text, if it may be: for those that are short or already there.
pub(in crate::text) fn text(text: String) -> String {
    if bytes(text.len()) { text } else { String::new() }
}

/// `text.replace(old, new)`, or its first `count` ones.
pub(super) fn replaced(text: &str, old: &str, new: &str, count: usize) -> String {
    let found = text.matches(old).count().min(count);
    let granted = bytes(found.saturating_mul(new.len()).saturating_add(text.len()));
    if granted { text.replacen(old, new, count) } else { String::new() }
}

/// `between.join(parts)`.
pub(super) fn joined(parts: &[String], between: &str) -> String {
    let most = parts.len().saturating_mul(between.len());
    if bytes(parts.iter().fold(most, |sum, part| sum.saturating_add(part.len()))) { parts.join(between) } else { String::new() }
}

/// An error once something was not granted.
pub(in crate::text) fn check() -> Result<(), Error> {
    LEFT.get().map(drop).ok_or_else(|| Error::new(ErrorKind::OutOfFuel, format!("it copies more than {} MB", BYTES_MAX / 1_000_000)))
}
