//! Text that may still become a mark.

/// Where the text read so far stands among some words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// It begins one of them.
    Begins,
    /// It is this one.
    Is(usize),
    /// It is none and becomes none.
    None,
}

/// Compares `text` with `words`; the first that it equals wins, so a word must not begin another one before it.
pub(crate) fn among(text: &str, words: &[&str]) -> Match {
    if let Some(at) = words.iter().position(|w| *w == text) {
        Match::Is(at)
    } else if words.iter().any(|w| w.starts_with(text)) {
        Match::Begins
    } else {
        Match::None
    }
}

/// White space, and then one of some words, character by character.
#[derive(Debug, Default)]
pub(crate) struct Word(String);

impl Word {
    pub(crate) fn step(&mut self, c: char, words: &[&str]) -> Match {
        if self.0.is_empty() && c.is_whitespace() {
            return Match::Begins;
        }
        self.0.push(c);
        let found = among(&self.0, words);
        if found != Match::Begins {
            self.0.clear();
        }
        found
    }
}

/// How many bytes at the end of `text` begin one of `words`, the longest such end but all of `text`.
pub(crate) fn tail(text: &str, words: &[&str]) -> usize {
    let longest = words.iter().map(|w| w.len()).max().unwrap_or(0);
    let starts = text.char_indices().rev().map(|(at, _)| at).take_while(|at| text.len() - at <= longest && *at > 0);
    starts.filter(|at| words.iter().any(|w| w.starts_with(&text[*at..]))).last().map_or(0, |at| text.len() - at)
}
