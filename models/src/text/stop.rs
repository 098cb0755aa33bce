//! Stop strings, matched on text and so across the borders of tokens.
//!
//! Text that may still become a stop string is held back, and nothing else is.

/// What one push yields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    /// Text that is safe to show now.
    pub text: String,
    /// The number of the stop string that has been found: its text and all after it is dropped, now and later.
    pub stopped: Option<usize>,
}

/// Finds the stop string that ends first as the text grows; of those ending together, the longest, as it starts first.
///
/// So the cut does not depend on how the text was divided into pushes.
#[derive(Debug, Clone)]
pub struct StopMatcher {
    stops: Vec<Stop>,
    held: String,
    stopped: Option<usize>,
}

/// One stop string as an automaton (Knuth, Morris and Pratt, 1977): a byte costs amortised constant time.
#[derive(Debug, Clone)]
struct Stop {
    /// Where it stands among the request's.
    number: usize,
    bytes: Vec<u8>,
    /// For each prefix, the length of its longest proper border.
    border: Vec<usize>,
    /// Length of the longest prefix that the text so far ends with.
    matched: usize,
}

impl StopMatcher {
    /// Empty stop strings are ignored: they would stop everything.
    pub fn new(stops: Vec<String>) -> Self {
        let stops = stops.into_iter().enumerate().filter(|(_, s)| !s.is_empty()).map(|(number, s)| Stop::new(number, s)).collect();
        Self { stops, held: String::new(), stopped: None }
    }

    /// Takes the next text and gives what can be shown. After a stop there is nothing more to show.
    pub fn push(&mut self, text: &str) -> Piece {
        if self.stopped.is_some() {
            return Piece { text: String::new(), stopped: self.stopped };
        }
        let before = self.held.len();
        self.held.push_str(text);
        for (i, &byte) in text.as_bytes().iter().enumerate() {
            let found = self.stops.iter_mut().filter_map(|s| Some((s.step(byte)?, s.number))).max();
            if let Some((len, number)) = found {
                self.stopped = Some(number);
                self.held.truncate(before + i + 1 - len);
                return Piece { text: std::mem::take(&mut self.held), stopped: self.stopped };
            }
        }
        let hold = self.stops.iter().map(|s| s.matched).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - hold);
        Piece { text: std::mem::replace(&mut self.held, rest), stopped: None }
    }

    /// The text ends here: what was held back is no stop string after all.
    pub fn finish(&mut self) -> String {
        for s in &mut self.stops {
            s.matched = 0;
        }
        std::mem::take(&mut self.held)
    }
}

impl Stop {
    fn new(number: usize, text: String) -> Self {
        let bytes = text.into_bytes();
        let mut border = vec![0; bytes.len()];
        let mut k = 0;
        for i in 1..bytes.len() {
            while k > 0 && bytes[k] != bytes[i] {
                k = border[k - 1];
            }
            k += usize::from(bytes[k] == bytes[i]);
            border[i] = k;
        }
        Self { number, bytes, border, matched: 0 }
    }

    /// Takes one byte of text; gives the stop string's length when it ends here.
    fn step(&mut self, byte: u8) -> Option<usize> {
        while self.matched > 0 && self.bytes[self.matched] != byte {
            self.matched = self.border[self.matched - 1];
        }
        self.matched += usize::from(self.bytes[self.matched] == byte);
        // A match ends the matcher's life, so that `matched` never stays at the full length.
        (self.matched == self.bytes.len()).then_some(self.matched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The text up to the match that ends first, and starts first among those.
    fn naive(text: &str, stops: &[String]) -> (String, Option<String>) {
        let found = stops.iter().filter(|s| !s.is_empty()).filter_map(|s| text.find(s.as_str()).map(|at| (at + s.len(), at))).min();
        match found {
            Some((end, at)) => (text[..at].to_owned(), Some(text[at..end].to_owned())),
            None => (text.to_owned(), None),
        }
    }

    /// Pushes `text` cut after the characters whose bit in `cuts` is set. Checks what is held back after each push.
    fn pushed(text: &str, cuts: u32, stops: &[String]) -> (String, Option<String>) {
        let mut m = StopMatcher::new(stops.to_vec());
        let (mut shown, mut piece, mut seen) = (String::new(), String::new(), String::new());
        for (i, c) in text.chars().enumerate() {
            piece.push(c);
            if cuts >> i & 1 == 0 && seen.len() + piece.len() < text.len() {
                continue;
            }
            let out = m.push(&piece);
            shown.push_str(&out.text);
            seen.push_str(&std::mem::take(&mut piece));
            if let Some(number) = out.stopped {
                assert_eq!(m.push(text), Piece { text: String::new(), stopped: out.stopped });
                return (shown + &m.finish(), Some(stops[number].clone()));
            }
            let held = &seen[shown.len()..];
            assert!(held.is_empty() || stops.iter().any(|s| s.starts_with(held)), "{held:?} held for nothing");
        }
        (shown + &m.finish(), None)
    }

    #[test]
    fn every_way_of_cutting_gives_the_naive_answer() {
        let s = |v: &[&str]| v.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        for (text, stops) in [
            ("aabaabaaab", s(&["aaab"])),
            ("aabaabaaab", s(&["baaa", "abaab"])),
            ("xxENDyyEND", s(&["END"])),
            ("x<|en<|end|>", s(&["<|end|>"])),
            ("é→é→→", s(&["→→", "é→x"])),
            ("abcd", s(&["bcd", "cd", "d"])),
            ("abcd", s(&["", "cde"])),
        ] {
            let want = naive(text, &stops);
            for cuts in 0..1 << text.chars().count() {
                assert_eq!(pushed(text, cuts, &stops), want, "{text:?} {stops:?} cut {cuts:b}");
            }
        }
    }

    proptest! {
        #[test]
        fn random_texts_and_stops(text in "[abé]{1,16}", stops in prop::collection::vec("[abé]{0,5}", 0..4), cuts: u32) {
            prop_assert_eq!(pushed(&text, cuts, &stops), naive(&text, &stops));
        }
    }
}
