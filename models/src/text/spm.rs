//! Merges of a SentencePiece BPE vocabulary, which stores scores instead.
//!
//! The rule is that of transformers' converter (`generate_merges` in `convert_slow_tokenizer.py`): a piece can be made
//! of any two pieces; better scores merge first; among the ways to make one piece, the longer left part goes first.

use std::collections::HashMap;

/// One token of the vocabulary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) score: f32,
    /// Ordinary text. Control, byte and user-defined tokens are matched whole or not at all, so no merge makes them.
    pub(super) normal: bool,
}

/// Merges, the first to apply first. Ids are indices into `tokens`.
pub(super) fn merges(tokens: &[Token<'_>]) -> Vec<(String, String)> {
    let ids: HashMap<&str, usize> = tokens.iter().enumerate().filter(|(_, t)| t.normal).map(|(i, t)| (t.text, i)).collect();
    let mut found = Vec::new();
    for token in tokens.iter().filter(|t| t.normal) {
        let cuts = token.text.char_indices().skip(1).map(|(at, _)| token.text.split_at(at));
        let mut ways: Vec<_> = cuts.filter_map(|(l, r)| Some(((*ids.get(l)?, *ids.get(r)?), l, r))).collect();
        ways.sort_by_key(|(ids, ..)| *ids);
        found.extend(ways.into_iter().map(|(_, l, r)| (token.score, l, r)));
    }
    let chars = |s: &str| s.chars().count();
    // Stable, so that what still ties keeps the vocabulary's order.
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| chars(b.1).cmp(&chars(a.1))).then_with(|| chars(b.2).cmp(&chars(a.2))));
    found.into_iter().map(|(_, l, r)| (l.to_owned(), r.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_scores_merge_first_and_longer_left_parts_win_ties() {
        let token = |text, score, normal| Token { text, score, normal };
        let got = merges(&[
            token("<s>", 0.0, false),
            token("a", -5.0, true),
            token("b", -6.0, true),
            token("ab", -2.0, true),
            token("bb", -1.0, true),
            token("abb", -3.0, true),
            token("abé", -4.0, true),
            token("<", -7.0, true),
            token("s>", -8.0, true),
        ]);
        let got: Vec<String> = got.iter().map(|(l, r)| format!("{l} {r}")).collect();
        assert_eq!(got, ["b b", "a b", "ab b", "a bb"]);
    }
}
