//! What each id stands for, worked out once, so that a row's text grows in constant time per id.
//!
//! Nearly all language models decode byte-level tokens, or SentencePiece's with byte fallback; for both, text is a
//! concatenation of bytes. Other decoders (WordPiece, Metaspace, …) look at neighbours and go through a window.

use super::stream::{self, Stream};
use serde_json::Value;
use tokenizers::Tokenizer;

/// Bytes that replacing may make of one: a space is written with three.
const GROWTH_MAX: usize = 4;

/// How a tokenizer's decoder makes text of tokens.
#[derive(Debug, Clone, PartialEq)]
enum Mode {
    /// Every token is some bytes; the whole is read as UTF-8 (GPT-2's scheme).
    Bytes,
    /// Tokens are text, `<0x0A>` is a byte, and up to `strip` spaces at the very start are dropped (SentencePiece's).
    Sentence { replace: Vec<(String, String)>, fallback: bool, strip: usize },
    /// The tokenizer's own decoder, over the last few tokens.
    Window,
}

/// What one id does to the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Text,
    /// One byte of a character that has no token (byte fallback).
    Byte,
    /// Special: never in text.
    Special,
    /// The vocabulary has a hole here.
    Unknown,
}

/// The table from ids to bytes.
pub(super) struct Pieces {
    mode: Mode,
    bytes: Vec<u8>,
    /// Of id `i`: where its bytes end; they start where those of `i - 1` end.
    ends: Vec<u32>,
    roles: Vec<Role>,
}

impl Pieces {
    /// `ids` is the greatest id and 1.
    pub(super) fn new(tokenizer: &Tokenizer, ids: usize) -> Self {
        let mut pieces = Self { mode: Mode::of(tokenizer), bytes: Vec::new(), ends: Vec::with_capacity(ids), roles: Vec::with_capacity(ids) };
        for id in 0..ids {
            let token = tokenizer.id_to_token(id as u32);
            let role = match &token {
                None => Role::Unknown,
                Some(t) if tokenizer.get_added_vocabulary().is_special_token(t) => Role::Special,
                Some(t) => pieces.add(t),
            };
            if let (Role::Special, Some(t)) = (role, &token) {
                pieces.bytes.extend(t.as_bytes());
            }
            pieces.roles.push(role);
            pieces.ends.push(pieces.bytes.len() as u32);
        }
        pieces
    }

    fn add(&mut self, token: &str) -> Role {
        match &self.mode {
            Mode::Bytes => self.bytes.extend(byte_level(token)),
            Mode::Window => self.bytes.extend(token.as_bytes()),
            Mode::Sentence { replace, fallback, .. } => {
                let text = replace.iter().fold(token.to_owned(), |t, (from, to)| t.replace(from.as_str(), to));
                if let Some(byte) = fallback_byte(&text).filter(|_| *fallback) {
                    self.bytes.push(byte);
                    return Role::Byte;
                }
                self.bytes.extend(text.as_bytes());
            }
        }
        Role::Text
    }

    fn role(&self, id: u32) -> Role {
        self.roles.get(id as usize).copied().unwrap_or(Role::Unknown)
    }

    fn of(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = id.checked_sub(1).map_or(0, |i| self.ends[i]);
        &self.bytes[start as usize..self.ends[id] as usize]
    }

    pub(super) fn is_special(&self, id: u32) -> bool {
        self.role(id) == Role::Special
    }

    /// Bytes of the longest one.
    pub(super) fn longest(&self) -> usize {
        let starts = std::iter::once(&0).chain(&self.ends);
        self.ends.iter().zip(starts).map(|(end, start)| (end - start) as usize).max().unwrap_or(0)
    }

    pub(super) fn raw(&self, id: u32) -> Option<Vec<u8>> {
        (self.role(id) != Role::Unknown).then(|| self.of(id).to_vec())
    }

    pub(super) fn push(&self, s: &mut Stream, id: u32, tokenizer: &Tokenizer, out: &mut String) {
        let role = self.role(id);
        if matches!(role, Role::Special | Role::Unknown) {
            return;
        }
        match (&self.mode, role) {
            (Mode::Window, _) => s.window.push(id, tokenizer, out),
            (Mode::Bytes, _) => stream::take(&mut s.pending, self.of(id), stream::Bad::Once, out),
            (Mode::Sentence { strip, .. }, role) => {
                let mut text = String::new();
                if role == Role::Byte {
                    stream::take(&mut s.pending, self.of(id), stream::Bad::EachByte, &mut text);
                } else {
                    stream::flush(&mut s.pending, stream::Bad::EachByte, &mut text);
                    text.push_str(&String::from_utf8_lossy(self.of(id)));
                }
                s.strip(*strip, &text, out);
            }
        }
    }

    pub(super) fn finish(&self, s: &mut Stream, tokenizer: &Tokenizer, out: &mut String) {
        match &self.mode {
            Mode::Window => s.window.finish(tokenizer, out),
            Mode::Bytes => stream::flush(&mut s.pending, stream::Bad::Once, out),
            // What is flushed here is U+FFFD only, so that there is nothing to strip.
            Mode::Sentence { .. } => stream::flush(&mut s.pending, stream::Bad::EachByte, out),
        }
        *s = Stream::default();
    }

    pub(super) fn decode(&self, ids: &[u32], tokenizer: &Tokenizer) -> String {
        let (mut s, mut out) = (Stream::default(), String::new());
        for &id in ids {
            self.push(&mut s, id, tokenizer, &mut out);
        }
        self.finish(&mut s, tokenizer, &mut out);
        out
    }
}

impl Mode {
    fn of(tokenizer: &Tokenizer) -> Self {
        let json = tokenizer.get_decoder().and_then(|d| serde_json::to_value(d).ok()).unwrap_or_default();
        let steps = match json.get("decoders").and_then(Value::as_array) {
            Some(steps) => steps.iter().collect(),
            None => vec![&json],
        };
        Self::of_steps(&steps).unwrap_or(Mode::Window)
    }

    /// None for a chain that is more than a concatenation.
    fn of_steps(steps: &[&Value]) -> Option<Self> {
        let kind = |s: &Value| s["type"].as_str().unwrap_or_default().to_owned();
        if let [only] = steps
            && kind(only) == "ByteLevel"
        {
            return Some(Mode::Bytes);
        }
        let (mut replace, mut fallback, mut fused, mut strip) = (Vec::new(), false, false, 0usize);
        let mut growth = 1usize;
        for step in steps {
            match kind(step).as_str() {
                "Replace" if !fallback && !fused => {
                    let (from, to) = (step["pattern"]["String"].as_str()?, step["content"].as_str()?);
                    // A table of all tokens, replaced, must not be of another size than the tokens.
                    growth = growth.saturating_mul(to.len().div_ceil(Some(from.len()).filter(|n| *n > 0)?).max(1));
                    replace.push((Some(from).filter(|_| growth <= GROWTH_MAX)?.to_owned(), to.to_owned()));
                }
                "ByteFallback" if !fused => fallback = true,
                "Fuse" => fused = true,
                "Strip" if fused && step["content"] == " " && step["stop"] == 0 => {
                    strip = strip.saturating_add(usize::try_from(step["start"].as_u64()?).ok()?);
                }
                _ => return None,
            }
        }
        fused.then_some(Mode::Sentence { replace, fallback, strip })
    }
}

/// A byte-level token's bytes. A token with a character that stands for no byte stands for itself.
fn byte_level(token: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = token.chars().map(byte_of_char).collect();
    bytes.unwrap_or_else(|| token.as_bytes().to_vec())
}

/// The byte that a character stands for in GPT-2's scheme: printable Latin-1 is itself, and the other 68 bytes, in
/// order, are the characters from U+0100 (`bytes_to_unicode` in GPT-2's `encoder.py`).
fn byte_of_char(c: char) -> Option<u8> {
    let other = |b: &u8| !matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    match u32::from(c) {
        n @ 0..256 => Some(n as u8).filter(|b| !other(b)),
        n @ 256..324 => (0..=255u8).filter(other).nth(n as usize - 256),
        _ => None,
    }
}

fn fallback_byte(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (hex.len() == 2).then(|| u8::from_str_radix(hex, 16).ok())?
}
