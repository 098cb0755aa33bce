//! What one row's text is waiting for: the bytes of half a character, or a window of tokens.

use tokenizers::Tokenizer;

/// The state of one row.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The start of a character whose other bytes have not come yet: at most three bytes.
    pub(super) pending: Vec<u8>,
    /// Spaces dropped at the start so far; None once other text has been seen.
    stripped: Stripped,
    pub(super) window: Window,
}

#[derive(Debug)]
struct Stripped(Option<usize>);

impl Default for Stripped {
    fn default() -> Self {
        Self(Some(0))
    }
}

impl Stream {
    /// Appends text to `out`, without the row's first `max` spaces.
    pub(super) fn strip(&mut self, max: usize, text: &str, out: &mut String) {
        let mut rest = text;
        while let Some(dropped) = self.stripped.0 {
            match rest.strip_prefix(' ') {
                Some(r) if dropped < max => {
                    rest = r;
                    self.stripped.0 = Some(dropped + 1);
                }
                _ if rest.is_empty() => return,
                _ => self.stripped.0 = None,
            }
        }
        out.push_str(rest);
    }
}

/// How many U+FFFD stand for a sequence of bytes that is no character. Byte-level decoders give one, byte fallback one
/// for each byte. (The tokenizers library then gives up the whole run of bytes, good characters too. Those have been
/// shown by then, and stay.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bad {
    Once,
    EachByte,
}

/// Adds bytes, and moves to `out` all that is certain. The start of a character at the end stays.
pub(super) fn take(pending: &mut Vec<u8>, bytes: &[u8], bad: Bad, out: &mut String) {
    pending.extend_from_slice(bytes);
    let mut used = 0;
    for chunk in pending.utf8_chunks() {
        out.push_str(chunk.valid());
        used += chunk.valid().len();
        let invalid = chunk.invalid();
        if used + invalid.len() == pending.len() && may_continue(invalid) {
            break;
        }
        used += invalid.len();
        replace(invalid.len(), bad, out);
    }
    pending.drain(..used);
}

/// Gives up on what is pending.
pub(super) fn flush(pending: &mut Vec<u8>, bad: Bad, out: &mut String) {
    replace(pending.len(), bad, out);
    pending.clear();
}

fn replace(bytes: usize, bad: Bad, out: &mut String) {
    let n = if bad == Bad::Once { bytes.min(1) } else { bytes };
    out.extend(std::iter::repeat_n(char::REPLACEMENT_CHARACTER, n));
}

/// Whether more bytes could make a character of it.
fn may_continue(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none())
}

/// Text by decoding the last few tokens with and without the newest: what is new is the difference.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Tokens that the next text may depend on: those before `shown` are context.
    ids: Vec<u32>,
    shown: usize,
}

/// Tokens that may be held back for the sake of one character: more than it has bytes.
const HELD_MAX: usize = 8;

impl Window {
    pub(super) fn push(&mut self, id: u32, tokenizer: &Tokenizer, out: &mut String) {
        self.ids.push(id);
        let (new, whole) = self.new_text(tokenizer);
        if !whole && self.ids.len() - self.shown < HELD_MAX {
            return;
        }
        out.push_str(&new);
        self.ids.drain(..self.shown);
        self.shown = self.ids.len();
    }

    pub(super) fn finish(&mut self, tokenizer: &Tokenizer, out: &mut String) {
        if self.shown < self.ids.len() {
            out.push_str(&self.new_text(tokenizer).0);
        }
    }

    /// The text that the tokens after `shown` add, and whether it is free of half characters.
    fn new_text(&self, tokenizer: &Tokenizer) -> (String, bool) {
        // A decoder fails on no input that its own vocabulary can give; were it to, the text would be missing, not wrong.
        let decode = |ids: &[u32]| tokenizer.decode(ids, true).unwrap_or_default();
        let before = decode(&self.ids[..self.shown]);
        let all = decode(&self.ids);
        let new = all.strip_prefix(before.as_str()).unwrap_or_default();
        let whole = !new.is_empty() && !new.ends_with(char::REPLACEMENT_CHARACTER);
        (new.to_owned(), whole)
    }
}
