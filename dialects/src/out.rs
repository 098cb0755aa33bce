//! The pieces that a reader gives out, and where they are gathered.

/// What an answer says, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Reasoning(String),
    Text(String),
    /// A call begins; its name is complete and one of the tools'.
    Call {
        index: u32,
        name: String,
    },
    /// The next part of a call's arguments, a JSON object's text.
    Arguments {
        index: u32,
        text: String,
    },
    /// The call turned out malformed, or the answer ended within it. `raw` is all that stood for it.
    Broken {
        index: u32,
        raw: String,
    },
}

/// Pieces not yet given out; neighbours of a kind are one. Knows which call is being told.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pieces: Vec<Piece>,
    /// Of the call being told, else of the next one.
    index: u32,
    telling: bool,
    /// A call was completed since [`Out::ended`] was last asked.
    ended: bool,
}

impl Out {
    pub(crate) fn take(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.pieces)
    }

    pub(crate) fn text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    pub(crate) fn reasoning(&mut self, text: &str) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Reasoning(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Reasoning(text.to_owned())),
        }
    }

    /// Whether a call's name is out and its end is not.
    pub(crate) fn telling(&self) -> bool {
        self.telling
    }

    pub(crate) fn call(&mut self, name: &str) {
        self.telling = true;
        self.pieces.push(Piece::Call { index: self.index, name: name.to_owned() });
    }

    pub(crate) fn arguments(&mut self, part: &str) {
        match self.pieces.last_mut() {
            _ if part.is_empty() => {}
            Some(Piece::Arguments { text, .. }) => text.push_str(part),
            _ => self.pieces.push(Piece::Arguments { index: self.index, text: part.to_owned() }),
        }
    }

    pub(crate) fn end_call(&mut self) {
        self.telling = false;
        self.ended = true;
        self.index += 1;
    }

    pub(crate) fn broken(&mut self, raw: String) {
        self.telling = false;
        self.pieces.push(Piece::Broken { index: self.index, raw });
        self.index += 1;
    }

    /// Whether a call was completed since this was last asked.
    pub(crate) fn ended(&mut self) -> bool {
        std::mem::take(&mut self.ended)
    }
}
