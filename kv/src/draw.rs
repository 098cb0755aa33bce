//! How a row's next token is drawn, and what is said of it besides: plain data, as [`crate::step`] is.

use crate::raw;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a row's next token is drawn. Temperature 0 is greedy, and then nothing else here matters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    pub temperature: f32,
    /// Keep the smallest set of tokens whose probability reaches this; 1 keeps all.
    pub top_p: f32,
    /// Keep this many of the likeliest tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep tokens at least this likely, relative to the likeliest; 0 keeps all.
    pub min_p: f32,
    pub seed: u64,
}

/// A draw at the row's last token of this step. The random key is `(sampling.seed, index)` and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draw {
    pub sampling: Sampling,
    /// Index of the drawn token among the row's generated tokens, from 0.
    pub index: u32,
    /// Ids that must not be drawn now (the stop tokens of a row with `ignore_eos` or below `min_tokens`).
    pub banned: Vec<u32>,
    /// Only these ids may be drawn now.
    pub allowed: Option<Mask>,
    /// Changes of single ids' logits, made first; each id at most once.
    pub edits: Vec<Edit>,
    /// The result is to say the token's log-probability, and those of so many of the likeliest ids. They are the model's own: of its
    /// logits as they are, before edits, bans and temperature.
    pub logprobs: Option<u8>,
}

impl Draw {
    /// With nothing banned, edited or asked for besides.
    pub fn new(sampling: Sampling, index: u32) -> Draw {
        Draw { sampling, index, banned: Vec::new(), allowed: None, edits: Vec::new(), logprobs: None }
    }

    /// Whether `id` may be drawn.
    pub fn allows(&self, id: u32) -> bool {
        !self.banned.contains(&id) && self.allowed.as_ref().is_none_or(|mask| mask.has(id))
    }
}

/// A set of ids: bit `id % 32` of word `id / 32`. Ids beyond its words are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mask(#[serde(with = "raw::words")] Arc<[u32]>);

impl Mask {
    pub fn new(words: impl Into<Arc<[u32]>>) -> Mask {
        Mask(words.into())
    }

    pub fn words(&self) -> &[u32] {
        &self.0
    }

    /// Whether any id but `these` is in it.
    pub fn has_beside(&self, these: &[u32]) -> bool {
        (0..).zip(self.words()).any(|(at, word)| {
            let of = these.iter().filter(|id| **id / 32 == at).fold(0, |bits, id| bits | 1 << (id % 32));
            word & !of != 0
        })
    }

    pub fn has(&self, id: u32) -> bool {
        self.0.get((id / 32) as usize).is_some_and(|word| word >> (id % 32) & 1 == 1)
    }
}

/// A change of one id's logit `z`: `z + add`, then divided by `scale` where that is positive and multiplied where not, then less `minus`.
/// So bias, repetition penalty (Keskar et al., 2019, CTRL) and OpenAI's presence and frequency penalties follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Edit {
    pub id: u32,
    pub add: f32,
    pub scale: f32,
    pub minus: f32,
}

/// Natural logarithms of probabilities, as [`Draw::logprobs`] asks for them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Logprobs {
    /// Of the drawn token.
    pub drawn: f32,
    /// The likeliest ids, likeliest first.
    pub top: Vec<(u32, f32)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_drawn() {
        let sampling = Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0 };
        let free = Draw::new(sampling, 3);
        let held = Draw { banned: vec![33], allowed: Some(Mask::new([1 << 31, 0b110])), ..free.clone() };
        let ids = |draw: &Draw| (0..100).filter(|id| draw.allows(*id)).collect::<Vec<u32>>();
        let mask = Mask::new([1 << 31, 0b110]);
        assert!(mask.has_beside(&[31, 33]) && !mask.has_beside(&[31, 33, 34]));
        assert_eq!((ids(&free).len(), ids(&held)), (100, vec![31, 34]));
    }
}
