//! What goes out of `/v1/chat/completions`, `/v1/completions` and `/v1/models`, as OpenAI shapes it.
//!
//! [`Head`] is what every object of one answer repeats; [`chunks`] are the frames of a stream, [`whole`] is the one body, [`parts`] is what both have
//! in common, [`list`] the models.

mod chunks;
mod list;
mod parts;
#[cfg(test)]
mod tests;
mod whole;

pub(crate) use chunks::Chunks;
pub(crate) use list::Model;
pub(crate) use parts::{TimingsOut, chat_logprobs};

/// Which of the two endpoints, and so which shape the answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Chat,
    Text,
}

/// What every object of one answer repeats.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) shape: Shape,
    /// `chatcmpl-…` or `cmpl-…`.
    pub(crate) id: String,
    pub(crate) created_unix_s: u64,
    pub(crate) model: String,
}
