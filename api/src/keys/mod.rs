//! Who may ask, how much, and what their share is: the keys of a file, and the gate that every request goes through.
//!
//! [`file`] reads the table, [`rate`] counts a minute's worth, [`gate`] puts the two together and is what requests see.

pub(crate) mod file;
pub(crate) mod gate;
mod rate;

pub use file::{KeysError, fresh};
pub use gate::Keys;
