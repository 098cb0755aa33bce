//! The pieces of an answer as one message, for a client that does not stream.

use crate::out::Piece;

/// A call that is well-formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    /// A JSON object's text.
    pub arguments: String,
}

/// All that an answer says. A malformed call is text, where it stood.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Whole {
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<Call>,
}

/// Gathers the pieces of one answer.
pub fn whole(pieces: impl IntoIterator<Item = Piece>) -> Whole {
    let mut all = Whole::default();
    for piece in pieces {
        match piece {
            Piece::Reasoning(part) => all.reasoning.push_str(&part),
            Piece::Text(part) => all.text.push_str(&part),
            Piece::Call { name, .. } => all.calls.push(Call { name, arguments: String::new() }),
            Piece::Arguments { text, .. } => {
                if let Some(call) = all.calls.last_mut() {
                    call.arguments.push_str(&text);
                }
            }
            // Calls do not overlap: the broken one is the last.
            Piece::Broken { raw, .. } => {
                all.calls.pop();
                all.text.push_str(&raw);
            }
        }
    }
    all
}
