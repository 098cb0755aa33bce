//! How often a row's ids were there before: what its penalties are made of. A row without penalties counts nothing.

use crate::submit::Wishes;
use kv::Edit;
use std::collections::BTreeMap;

/// Of each id that an edit is about: whether the prompt has it, and how often the answer has. None where nothing depends on that.
#[derive(Debug, Default)]
pub(super) struct Tally(Option<BTreeMap<u32, Seen>>);

#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    bias: f32,
    in_prompt: bool,
    generated: u32,
}

impl Tally {
    pub(super) fn new(wishes: &Wishes, prompt: &[u32]) -> Tally {
        let Wishes { presence, frequency, repetition, .. } = *wishes;
        if (presence, frequency, repetition) == (0.0, 0.0, 1.0) {
            return Tally(None);
        }
        let mut seen: BTreeMap<u32, Seen> = wishes.bias.iter().map(|&(id, bias)| (id, Seen { bias, ..Seen::default() })).collect();
        if repetition != 1.0 {
            prompt.iter().for_each(|id| seen.entry(*id).or_default().in_prompt = true);
        }
        Tally(Some(seen))
    }

    /// The edits change with every token.
    pub(super) fn counts(&self) -> bool {
        self.0.is_some()
    }

    /// One more token was generated.
    pub(super) fn note(&mut self, token: u32) {
        if let Some(seen) = &mut self.0 {
            seen.entry(token).or_default().generated += 1;
        }
    }

    /// What the next draw changes.
    pub(super) fn edits(&self, wishes: &Wishes) -> Vec<Edit> {
        let edit = |(&id, seen): (&u32, &Seen)| Edit {
            id,
            add: seen.bias,
            scale: if seen.in_prompt || seen.generated > 0 { wishes.repetition } else { 1.0 },
            minus: if seen.generated > 0 { wishes.presence + wishes.frequency * seen.generated as f32 } else { 0.0 },
        };
        match &self.0 {
            Some(seen) => seen.iter().map(edit).collect(),
            None => wishes.bias.iter().map(|&(id, add)| Edit { id, add, scale: 1.0, minus: 0.0 }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits(wishes: &Wishes, prompt: &[u32], answer: &[u32]) -> Vec<(u32, f32, f32, f32)> {
        let mut tally = Tally::new(wishes, prompt);
        answer.iter().for_each(|token| tally.note(*token));
        tally.edits(wishes).iter().map(|e| (e.id, e.add, e.scale, e.minus)).collect()
    }

    #[test]
    fn penalties_are_of_what_was_there() {
        let none = Wishes::default();
        assert_eq!(edits(&none, &[1, 2], &[3, 3]), []);
        let bias = Wishes { bias: vec![(9, -2.0)], ..none.clone() };
        assert_eq!(edits(&bias, &[1], &[9]), [(9, -2.0, 1.0, 0.0)], "a bias alone is the same for every draw");
        let counted = Wishes { presence: 0.5, frequency: 0.25, bias: vec![(3, 1.0)], ..none.clone() };
        assert_eq!(edits(&counted, &[1, 2], &[3, 4, 3]), [(3, 1.0, 1.0, 1.0), (4, 0.0, 1.0, 0.75)], "prompts do not count for these");
        let repeated = Wishes { repetition: 1.5, ..none };
        assert_eq!(edits(&repeated, &[1, 2], &[2, 4]), [(1, 0.0, 1.5, 0.0), (2, 0.0, 1.5, 0.0), (4, 0.0, 1.5, 0.0)]);
    }
}
