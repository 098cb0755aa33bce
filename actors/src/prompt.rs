//! From what a client wrote to token ids. Pure, and slow for long texts: the Request actor does it aside then.

use crate::ask::{Failure, Prompt, Reasoning};
use models::text::{Text, TextError};

/// The field that a prompt came from, as errors name it.
pub(crate) fn param(prompt: &Prompt) -> &'static str {
    match prompt {
        Prompt::Chat { .. } => "messages",
        Prompt::Text(_) | Prompt::Ids(_) => "prompt",
    }
}

/// What a message weighs beside its text: the template's words around it.
const MESSAGE_BYTES: usize = 64;

/// Bytes of text that must be rendered and tokenized: a measure of the work, exact enough to decide where it is done.
pub(crate) fn weight_bytes(prompt: &Prompt) -> usize {
    let of = |m: &serde_json::Value| MESSAGE_BYTES + m.get("content").and_then(|c| c.as_str()).map_or(0, str::len);
    match prompt {
        Prompt::Chat { messages, kwargs } => messages.iter().map(of).sum::<usize>() + kwargs.values().map(size_bytes).sum::<usize>(),
        Prompt::Text(text) => text.len(),
        Prompt::Ids(_) => 0,
    }
}

/// About as many bytes as a value has when written.
fn size_bytes(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    const ANY: usize = 8;
    match value {
        Value::String(text) => ANY + text.len(),
        Value::Array(items) => ANY + items.iter().map(size_bytes).sum::<usize>(),
        Value::Object(fields) => ANY + fields.iter().map(|(name, value)| name.len() + size_bytes(value)).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) => ANY,
    }
}

/// How much a normalizer may shorten a text: NFKC makes one byte of three, and a little more for good measure.
const SHORTENING_MAX: usize = 4;

/// A prompt as the model reads it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) ids: Vec<u32>,
    /// It ends within the mark of reasoning: the answer begins with reasoning.
    pub(crate) in_reasoning: bool,
}

/// The ids that the model is to continue. A text that cannot be `context` tokens is refused before it is tokenized: that takes a
/// hundred times its size in memory, and a client's ten megabytes must not.
pub(crate) fn read(text: &Text, reasoning: Reasoning, prompt: Prompt, context: u32) -> Result<Read, Failure> {
    let param = param(&prompt);
    let bytes_max = (context as usize).saturating_mul(text.longest_token_bytes()).saturating_mul(SHORTENING_MAX);
    let fits = |rendered: &str| {
        let message = || format!("the prompt has {} bytes; the model's context holds {context} tokens, which are fewer", rendered.len());
        if rendered.len() <= bytes_max { Ok(()) } else { Err(Failure::Invalid { param, code: "context_length_exceeded", message: message() }) }
    };
    let mut in_reasoning = false;
    let encoded = match prompt {
        Prompt::Ids(ids) => Ok(ids),
        Prompt::Text(plain) => {
            fits(&plain)?;
            text.encode(&plain, true)
        }
        Prompt::Chat { messages, kwargs } => match text.render_chat(&messages, &kwargs) {
            Ok(rendered) => {
                fits(&rendered)?;
                in_reasoning = dialects::ends_in_reasoning(reasoning, &rendered);
                text.encode(&rendered, false)
            }
            Err(error) => Err(error),
        },
    };
    encoded.map(|ids| Read { ids, in_reasoning }).map_err(|error| {
        let code = match error {
            TextError::Template(_) => "invalid_messages",
            TextError::NoTemplate => "no_chat_template",
            TextError::Encode(_) | TextError::File { .. } | TextError::Gguf(_) => "invalid_text",
        };
        Failure::Invalid { param, code, message: error.to_string() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_cannot_fit_is_refused_before_it_is_tokenized() {
        let dir = tempfile::tempdir().unwrap();
        models::synthetic::text::write_dir(dir.path()).unwrap();
        let text = Text::from_dir(dir.path()).unwrap();
        let bytes_max = 64 * text.longest_token_bytes() * SHORTENING_MAX;
        let refused = read(&text, Reasoning::None, Prompt::Text("a".repeat(bytes_max + 1)), 64).unwrap_err();
        let Failure::Invalid { param, code, message } = refused else { panic!("{refused:?}") };
        assert_eq!((param, code), ("prompt", "context_length_exceeded"));
        assert!(message.contains(&format!("{} bytes", bytes_max + 1)), "{message}");
        assert_eq!(read(&text, Reasoning::None, Prompt::Text("a".repeat(64)), 64).unwrap().ids.len(), 64);
    }
}
