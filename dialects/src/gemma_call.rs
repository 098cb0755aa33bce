//! Gemma 4's calls: `call:name{key:<|"|>text<|"|>,n:3}`, told as JSON.

use std::collections::BTreeSet;

use crate::form::Step;
use crate::json::push_quoted;
use crate::marks::{Match, Word, among};
use crate::offer::{Kinds, Offers, quoted, value_of};
use crate::out::Out;

/// Stands at both ends of a string.
const QUOTE: &str = "<|\"|>";

/// Containers within containers, as in [`crate::json`].
const DEPTH_MAX: usize = 100;

#[derive(Debug)]
enum Place {
    /// Before `call:`.
    Open,
    Name(String),
    /// Before a key; an object without any may end here.
    Key {
        first: bool,
    },
    BareKey(String),
    QuotedKey(String),
    Colon,
    /// Before a value; an array without any may end here.
    Value {
        first: bool,
    },
    /// `<`, which may become the quote.
    Opening(String),
    /// A string; what of it may become the quote.
    Text(String),
    /// A string in JSON's quotes, which models write now and then.
    JsonText {
        raw: String,
        escaped: bool,
    },
    Bare(String),
    CommaOrEnd,
    After,
}

/// An open container: an object with its keys, or an array.
#[derive(Debug)]
enum Frame {
    Object(BTreeSet<String>),
    Array,
}

/// One call.
#[derive(Debug)]
pub(crate) struct GemmaCall {
    place: Place,
    name: String,
    frames: Vec<Frame>,
    /// What the schema allows for the argument at hand.
    kinds: Kinds,
    word: Word,
}

impl GemmaCall {
    pub(crate) fn new() -> GemmaCall {
        GemmaCall { place: Place::Open, name: String::new(), frames: Vec::new(), kinds: Kinds::default(), word: Word::default() }
    }

    pub(crate) fn rests(&self) -> bool {
        matches!(self.place, Place::After)
    }

    pub(crate) fn step(&mut self, c: char, offers: &Offers, out: &mut Out) -> Step {
        match &mut self.place {
            Place::Open => match self.word.step(c, &["call:"]) {
                Match::Begins => Step::More,
                Match::Is(_) => self.go(Place::Name(String::new())),
                Match::None => Step::Bad,
            },
            Place::Name(name) if c == '{' => {
                if !offers.has(name) {
                    return Step::Bad;
                }
                self.name = std::mem::take(name);
                out.call(&self.name);
                self.open(c, out)
            }
            Place::Name(name) => {
                name.push(c);
                if offers.begins(name) { Step::More } else { Step::Bad }
            }
            Place::After => match self.word.step(c, &["<tool_call|>"]) {
                Match::Begins => Step::More,
                Match::Is(_) => Step::Ends,
                Match::None => Step::Over,
            },
            Place::Key { .. } | Place::BareKey(_) | Place::QuotedKey(_) | Place::Colon => self.key(c, offers, out),
            _ => self.value(c, out),
        }
    }

    fn go(&mut self, place: Place) -> Step {
        self.place = place;
        Step::More
    }

    fn key(&mut self, c: char, offers: &Offers, out: &mut Out) -> Step {
        match &mut self.place {
            Place::Key { .. } if c.is_whitespace() => Step::More,
            Place::Key { first: true } if c == '}' => self.close(c, out),
            Place::Key { .. } if matches!(c, '<' | '"') => self.go(Place::QuotedKey(c.to_string())),
            Place::Key { .. } if !matches!(c, ':' | ',' | '{' | '}' | '[' | ']') => self.go(Place::BareKey(c.to_string())),
            Place::BareKey(key) if c == ':' => {
                let key = key.trim_end().to_owned();
                self.key_ends(key, offers, out)
            }
            Place::BareKey(key) if !matches!(c, ',' | '{' | '}' | '[' | ']') => {
                key.push(c);
                Step::More
            }
            Place::QuotedKey(raw) => {
                raw.push(c);
                let quote = if raw.starts_with('"') { "\"" } else { QUOTE };
                if !raw.starts_with(quote) {
                    return if quote.starts_with(raw.as_str()) { Step::More } else { Step::Bad };
                }
                match raw[quote.len()..].strip_suffix(quote) {
                    Some(key) if raw.len() > quote.len() => {
                        let key = key.to_owned();
                        self.key_ends(key, offers, out);
                        if matches!(self.place, Place::Value { .. }) { self.go(Place::Colon) } else { Step::Bad }
                    }
                    _ => Step::More,
                }
            }
            Place::Colon if c == ':' => self.go(Place::Value { first: false }),
            Place::Colon if c.is_whitespace() => Step::More,
            _ => Step::Bad,
        }
    }

    fn key_ends(&mut self, key: String, offers: &Offers, out: &mut Out) -> Step {
        let top = self.frames.len() == 1;
        let Some(Frame::Object(keys)) = self.frames.last_mut() else { return Step::Bad };
        out.arguments(&format!("{}:", quoted(&key)));
        self.kinds = if top { offers.kinds(&self.name, &key) } else { Kinds::default() };
        if !keys.insert(key) {
            return Step::Bad;
        }
        self.go(Place::Value { first: false })
    }

    fn value(&mut self, c: char, out: &mut Out) -> Step {
        match &mut self.place {
            Place::Value { .. } | Place::CommaOrEnd if c.is_whitespace() => Step::More,
            Place::Value { first: true } if c == ']' => self.close(c, out),
            Place::Value { .. } => match c {
                '{' | '[' => self.open(c, out),
                '<' => self.go(Place::Opening(c.to_string())),
                '"' => self.go(Place::JsonText { raw: c.to_string(), escaped: false }),
                ',' | ':' | '}' | ']' => Step::Bad,
                _ => self.go(Place::Bare(c.to_string())),
            },
            Place::Opening(begun) => {
                begun.push(c);
                match among(begun, &[QUOTE]) {
                    Match::Begins => Step::More,
                    Match::Is(_) => {
                        out.arguments("\"");
                        self.go(Place::Text(String::new()))
                    }
                    Match::None => Step::Bad,
                }
            }
            Place::Text(held) => {
                if text(held, c, out) {
                    self.place = Place::CommaOrEnd;
                }
                Step::More
            }
            Place::JsonText { raw, escaped } => {
                crate::json::push(raw, c, true);
                if *escaped || c == '\\' {
                    *escaped = !*escaped;
                    return Step::More;
                }
                if c != '"' {
                    return Step::More;
                }
                let Ok(plain) = serde_json::from_str::<String>(raw) else { return Step::Bad };
                out.arguments(&quoted(&plain));
                self.go(Place::CommaOrEnd)
            }
            Place::Bare(word) if matches!(c, ',' | '}' | ']') => {
                out.arguments(&value_of(word.trim_end(), self.kinds));
                self.comma_or_end(c, out)
            }
            Place::Bare(word) if !matches!(c, '{' | '[' | '<') => {
                word.push(c);
                Step::More
            }
            Place::CommaOrEnd => self.comma_or_end(c, out),
            _ => Step::Bad,
        }
    }

    fn comma_or_end(&mut self, c: char, out: &mut Out) -> Step {
        match c {
            ',' => {
                out.arguments(",");
                let object = matches!(self.frames.last(), Some(Frame::Object(_)));
                self.go(if object { Place::Key { first: false } } else { Place::Value { first: false } })
            }
            '}' | ']' => self.close(c, out),
            _ => Step::Bad,
        }
    }

    fn open(&mut self, c: char, out: &mut Out) -> Step {
        if self.frames.len() == DEPTH_MAX {
            return Step::Bad;
        }
        out.arguments(c.encode_utf8(&mut [0; 4]));
        if c == '{' {
            self.frames.push(Frame::Object(BTreeSet::new()));
            self.go(Place::Key { first: true })
        } else {
            self.frames.push(Frame::Array);
            self.kinds = Kinds::default();
            self.go(Place::Value { first: true })
        }
    }

    fn close(&mut self, c: char, out: &mut Out) -> Step {
        match (self.frames.pop(), c) {
            (Some(Frame::Object(_)), '}') | (Some(Frame::Array), ']') => out.arguments(c.encode_utf8(&mut [0; 4])),
            _ => return Step::Bad,
        }
        if self.frames.is_empty() {
            out.end_call();
            return self.go(Place::After);
        }
        self.go(Place::CommaOrEnd)
    }
}

/// A character within a string: given out unless it may belong to the closing quote. Whether it completes that.
fn text(held: &mut String, c: char, out: &mut Out) -> bool {
    let mut part = String::new();
    held.push(c);
    // The quote has `<` in the first place only: what does not continue it begins anew at the last character.
    let ends = match among(held, &[QUOTE]) {
        Match::Begins => return false,
        Match::Is(_) => {
            part.push('"');
            true
        }
        Match::None => {
            let keep = if c == '<' { held.len() - 1 } else { held.len() };
            held.drain(..keep).for_each(|c| push_quoted(&mut part, c));
            false
        }
    };
    out.arguments(&part);
    ends
}
