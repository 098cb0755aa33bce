//! From what a client wrote to token ids. Pure, and slow for long texts: the Request actor does it aside then.

use crate::ask::{Failure, Prompt};
use models::text::{Text, TextError};

/// The field that a prompt came from, as errors name it.
pub(crate) fn param(prompt: &Prompt) -> &'static str {
    match prompt {
        Prompt::Chat { .. } => "messages",
        Prompt::Text(_) | Prompt::Ids(_) => "prompt",
    }
}

/// Bytes of text that must be tokenized: a measure of the work, exact enough to decide where it is done.
pub(crate) fn weight_bytes(prompt: &Prompt) -> usize {
    match prompt {
        Prompt::Chat { messages, .. } => messages.iter().filter_map(|m| m.get("content")?.as_str()).map(str::len).sum(),
        Prompt::Text(text) => text.len(),
        Prompt::Ids(_) => 0,
    }
}

/// The ids that the model is to continue.
pub(crate) fn ids(text: &Text, prompt: Prompt) -> Result<Vec<u32>, Failure> {
    let param = param(&prompt);
    let encoded = match prompt {
        Prompt::Ids(ids) => Ok(ids),
        Prompt::Text(plain) => text.encode(&plain, true),
        Prompt::Chat { messages, kwargs } => text.render_chat(&messages, &kwargs).and_then(|rendered| text.encode(&rendered, false)),
    };
    encoded.map_err(|error| {
        let code = match error {
            TextError::Template(_) => "invalid_messages",
            TextError::NoTemplate => "no_chat_template",
            TextError::Encode(_) | TextError::File { .. } | TextError::Gguf(_) => "invalid_text",
        };
        Failure::Invalid { param, code, message: error.to_string() }
    })
}
