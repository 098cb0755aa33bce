//! From generated ids to the text that a client may see. Pure: one for each row, fed in order.

use models::text::{Detokenizer, StopMatcher};

/// Text that is final, with the number of tokens that stand behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// Empty if nothing is final yet.
    pub(crate) text: String,
    pub(crate) tokens: u32,
    /// A stop string was found: the answer ends here.
    pub(crate) stopped: bool,
}

/// Turns ids into text, holding back half characters and what may still become a stop string.
pub(crate) struct Writer {
    detokenizer: Detokenizer,
    stops: StopMatcher,
    /// Tokens taken since text was last given out.
    unreported: u32,
}

impl Writer {
    pub(crate) fn new(detokenizer: Detokenizer, stop: Vec<String>) -> Writer {
        Writer { detokenizer, stops: StopMatcher::new(stop), unreported: 0 }
    }

    /// Takes the next id.
    pub(crate) fn push(&mut self, id: u32) -> Written {
        self.unreported += 1;
        let text = self.detokenizer.push(id);
        if text.is_empty() {
            return Written::default();
        }
        let piece = self.stops.push(&text);
        self.report(piece.text, piece.stopped)
    }

    /// No further id comes: gives out what was held back.
    pub(crate) fn finish(&mut self) -> Written {
        let rest = self.detokenizer.finish();
        let piece = self.stops.push(&rest);
        let mut text = piece.text;
        if !piece.stopped {
            text.push_str(&self.stops.finish());
        }
        self.report(text, piece.stopped)
    }

    fn report(&mut self, text: String, stopped: bool) -> Written {
        let tokens = if text.is_empty() { 0 } else { std::mem::take(&mut self.unreported) };
        Written { text, tokens, stopped }
    }
}
