//! Everything between text and token ids: tokenizer, chat template, incremental detokenizer, stop strings.
//!
//! No MLX and no model here: a [`Text`] is read-only once loaded and is shared by all threads.

mod detokenize;
mod dir;
mod from_gguf;
mod jinja;
mod merges;
mod pieces;
mod pretokenize;
mod python;
mod spm;
mod stop;
mod stream;
mod strftime;
mod template;
#[cfg(test)]
mod tests;

pub use detokenize::Detokenizer;
pub use stop::{Piece, StopMatcher};
pub use template::ChatTemplates;

use crate::gguf;
use crate::plain::one_line;
use pieces::Pieces;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokenizers::Tokenizer;

/// Why a model's text side cannot be used, or why a text cannot be turned into ids.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A file of the model is missing or wrong. The reason names the field and says what is allowed.
    #[error("{}: {}", file.display(), one_line(reason))]
    File { file: PathBuf, reason: String },
    #[error(transparent)]
    Gguf(#[from] gguf::GgufError),
    /// The template rejected the conversation, or cannot render it: the client's to mend.
    #[error("chat template: {0}")]
    Template(String),
    /// The model brings no chat template, so that it can complete text but not chat.
    #[error("the model has no chat template: use completions, which take a prompt as it is")]
    NoTemplate,
    /// The tokenizer failed on a text.
    #[error("tokenizer: {0}")]
    Encode(String),
}

/// A model's tokenizer, special tokens and chat template.
pub struct Text {
    tokenizer: Tokenizer,
    pieces: Pieces,
    templates: ChatTemplates,
    stop_ids: Vec<u32>,
    vocab_size: usize,
}

/// What the loaders find, before it is put together.
struct Parts {
    tokenizer: Tokenizer,
    templates: ChatTemplates,
    /// In any order, with repetitions.
    stop_ids: Vec<u32>,
}

impl Text {
    /// Loads a model directory in Hugging Face's layout: `tokenizer.json`, and where they exist
    /// `tokenizer_config.json`, `chat_template.jinja` or `.json`, `generation_config.json` and `config.json`.
    pub fn from_dir(dir: &Path) -> Result<Self, TextError> {
        Self::assemble(dir::load(dir)?)
    }

    /// Builds the tokenizer and template from a GGUF file's `tokenizer.*` metadata.
    pub fn from_gguf(file: &gguf::File) -> Result<Self, TextError> {
        Self::assemble(from_gguf::load(file)?)
    }

    fn assemble(mut parts: Parts) -> Result<Self, TextError> {
        // A tokenizer.json may carry its training's truncation and padding, which would cut or fill prompts unasked.
        parts.tokenizer.with_truncation(None).map_err(|e| TextError::Encode(e.to_string()))?.with_padding(None);
        parts.stop_ids.sort_unstable();
        parts.stop_ids.dedup();
        let vocab = parts.tokenizer.get_vocab(true);
        let ids = vocab.values().map(|&id| id as usize + 1).max();
        Ok(Self {
            pieces: Pieces::new(&parts.tokenizer, ids.unwrap_or(0)),
            vocab_size: ids.unwrap_or(0),
            tokenizer: parts.tokenizer,
            templates: parts.templates,
            stop_ids: parts.stop_ids,
        })
    }

    /// Ids of a text. Special tokens written out in the text become their ids. `add_special` also adds what the model
    /// wants around a plain prompt (usually a BOS); pass false for rendered chats, whose template writes it.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TextError> {
        self.tokenizer.encode_fast(text, add_special).map(|e| e.get_ids().to_vec()).map_err(|e| TextError::Encode(e.to_string()))
    }

    /// The prompt of a conversation, ready for `encode(.., false)`.
    ///
    /// `messages` are passed to the template as they are. `kwargs` are the template's other variables (`tools`,
    /// `enable_thinking`, …) and may override the defaults: `add_generation_prompt` is true, `tools` and `documents`
    /// are none, and the special tokens have their texts.
    pub fn render_chat(&self, messages: &[Value], kwargs: &Map<String, Value>) -> Result<String, TextError> {
        self.templates.render(messages, kwargs)
    }

    /// The chat template's source; that for tools, where there is one.
    pub fn template(&self) -> Option<&str> {
        self.templates.source()
    }

    /// Whether [`Text::render_chat`] can work at all.
    pub fn has_chat_template(&self) -> bool {
        !self.templates.is_empty()
    }

    /// Ids that end an answer, ascending.
    pub fn stop_ids(&self) -> &[u32] {
        &self.stop_ids
    }

    /// The greatest id of the tokenizer, and 1. A model's logits may be wider.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The id of a token by its exact text in the vocabulary, special tokens included.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    /// The bytes that a token stands for, special tokens included: what `logprobs` report. None for unknown ids.
    pub fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.pieces.raw(id)
    }

    /// Bytes of the longest token: no text of more than `n` times as many is `n` tokens (unless a normalizer shortens it).
    pub fn longest_token_bytes(&self) -> usize {
        self.pieces.longest()
    }

    /// Whether a token is a special one, which never shows in text.
    pub fn is_special(&self, id: u32) -> bool {
        self.pieces.is_special(id)
    }

    /// Text of ids, without special tokens. What is not UTF-8 becomes U+FFFD; unknown ids are nothing.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.pieces.decode(ids, &self.tokenizer)
    }

    /// A detokenizer for one row.
    pub fn detokenizer(self: &Arc<Self>) -> Detokenizer {
        Detokenizer::new(Arc::clone(self))
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Text").field("vocab_size", &self.vocab_size).field("stop_ids", &self.stop_ids).finish_non_exhaustive()
    }
}
