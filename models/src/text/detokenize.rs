//! Ids to text as they come: only text that is final is given out.

use super::Text;
use super::stream::Stream;
use std::sync::Arc;

/// One row's text. The texts of all pushes and of `finish`, joined, are what [`Text::decode`] gives for all ids.
pub struct Detokenizer {
    text: Arc<Text>,
    stream: Stream,
}

impl Detokenizer {
    pub(super) fn new(text: Arc<Text>) -> Self {
        Self { text, stream: Stream::default() }
    }

    /// Takes one id and gives the text that it completes: whole characters only, so often nothing.
    pub fn push(&mut self, id: u32) -> String {
        let mut out = String::new();
        self.text.pieces.push(&mut self.stream, id, &self.text.tokenizer, &mut out);
        out
    }

    /// The row ends here: half a character becomes U+FFFD. The detokenizer is as new afterwards.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        self.text.pieces.finish(&mut self.stream, &self.text.tokenizer, &mut out);
        out
    }
}

impl std::fmt::Debug for Detokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Detokenizer").field("stream", &self.stream).finish_non_exhaustive()
    }
}
