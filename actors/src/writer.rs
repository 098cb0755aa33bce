//! From generated ids to what a client may see. Pure: one for each row, fed in order.

use crate::ask::{Piece, TokenLogprob};
use crate::speech::Marks;
use dialects::Reader;
use kv::Logprobs;
use models::text::{Detokenizer, StopMatcher, Text};
use std::sync::Arc;

/// What is final, with the tokens that stand behind it.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Empty if nothing is final yet.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) tokens: u32,
    pub(crate) logprobs: Vec<TokenLogprob>,
    /// The number of the stop string that was found: the answer ends here.
    pub(crate) stopped: Option<usize>,
}

/// Turns ids into pieces, holding back half characters and what may still become a stop string or a mark.
pub(crate) struct Writer {
    text: Arc<Text>,
    detokenizer: Detokenizer,
    /// Special tokens that the reader is to see.
    marks: Arc<Marks>,
    stops: StopMatcher,
    reader: Reader,
    /// Tokens taken since something was last given out.
    unreported: u32,
    logprobs: Vec<TokenLogprob>,
    /// Calls told, less those that turned out malformed.
    calls: u32,
}

impl Writer {
    pub(crate) fn new(text: &Arc<Text>, marks: Arc<Marks>, stop: Vec<String>, reader: Reader) -> Writer {
        let (detokenizer, stops) = (text.detokenizer(), StopMatcher::new(stop));
        Writer { text: Arc::clone(text), detokenizer, marks, stops, reader, unreported: 0, logprobs: Vec::new(), calls: 0 }
    }

    /// Takes the next id.
    pub(crate) fn push(&mut self, id: u32, logprobs: Option<&Logprobs>) -> Written {
        self.unreported += 1;
        self.logprobs.extend(logprobs.map(|said| self.told(id, said)));
        let text = match self.marks.get(&id) {
            Some(mark) => (*mark).to_owned(),
            None => self.detokenizer.push(id),
        };
        if text.is_empty() {
            return Written::default();
        }
        let piece = self.stops.push(&text);
        let mut pieces = self.reader.push(&piece.text);
        if piece.stopped.is_some() {
            pieces.extend(self.reader.finish());
        }
        self.report(pieces, piece.stopped)
    }

    /// No further id comes: gives out what was held back. Of an answer that is cut, half a character is not shown, and a call that it was in
    /// stays as far as it came.
    pub(crate) fn finish(&mut self, cut: bool) -> Written {
        let rest = self.detokenizer.finish();
        let rest = if cut { rest.trim_end_matches(char::REPLACEMENT_CHARACTER) } else { &rest };
        let piece = self.stops.push(rest);
        let mut text = piece.text;
        if piece.stopped.is_none() {
            text.push_str(&self.stops.finish());
        }
        let mut pieces = self.reader.push(&text);
        pieces.extend(self.reader.finish().into_iter().filter(|piece| !cut || !matches!(piece, Piece::Broken { .. })));
        self.report(pieces, piece.stopped)
    }

    /// The answer has a whole call of a tool.
    pub(crate) fn has_called(&self) -> bool {
        self.calls > 0
    }

    fn told(&self, id: u32, said: &Logprobs) -> TokenLogprob {
        let bytes = |id| self.text.token_bytes(id).unwrap_or_default();
        TokenLogprob { bytes: bytes(id), logprob: said.drawn, top: said.top.iter().map(|(id, of)| (bytes(*id), *of)).collect() }
    }

    fn report(&mut self, pieces: Vec<Piece>, stopped: Option<usize>) -> Written {
        for piece in &pieces {
            match piece {
                Piece::Call { .. } => self.calls += 1,
                Piece::Broken { .. } => self.calls = self.calls.saturating_sub(1),
                Piece::Text(_) | Piece::Reasoning(_) | Piece::Arguments { .. } => {}
            }
        }
        if pieces.is_empty() {
            return Written { stopped, ..Written::default() };
        }
        Written { pieces, tokens: std::mem::take(&mut self.unreported), logprobs: std::mem::take(&mut self.logprobs), stopped }
    }
}
