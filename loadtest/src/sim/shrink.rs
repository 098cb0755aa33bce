//! The shortest list of acts that still fails in the same way: cut behind the failure, then without whatever it does not need.
//!
//! Greedy removal of ever smaller pieces, as delta debugging does (Zeller and Hildebrandt, TSE 2002).

use super::script::{Act, Script};
use super::trial::Failure;

/// Lists to try at most; each takes what one seed takes.
const TRIES_MAX: u32 = 5_000;

pub(crate) fn shrink(script: &Script, first: Failure, fails: impl FnMut(&Script) -> Option<Failure>) -> (Script, Failure) {
    let mut search = Search { best: script.clone(), failure: first, fails, tries: 0 };
    let acts = search.failure.acts;
    search.prefix(acts);
    let mut piece = search.best.acts.len().div_ceil(2);
    loop {
        let before = search.best.acts.len();
        search.without_pieces_of(piece);
        if piece > 1 {
            piece = piece.div_ceil(2);
        } else if search.best.acts.len() == before {
            return (search.best, search.failure);
        }
    }
}

struct Search<F> {
    best: Script,
    failure: Failure,
    fails: F,
    tries: u32,
}

impl<F: FnMut(&Script) -> Option<Failure>> Search<F> {
    /// The shortest beginning that fails, by bisection between none and `enough` acts.
    fn prefix(&mut self, enough: usize) {
        let all = self.best.acts.clone();
        let (mut low, mut high) = (0, enough);
        if !self.keep(all[..enough].to_vec()) {
            return;
        }
        while low + 1 < high {
            let middle = usize::midpoint(low, high);
            if self.keep(all[..middle].to_vec()) { high = middle } else { low = middle }
        }
    }

    /// From the end, because later acts depend on earlier ones and not the other way round.
    fn without_pieces_of(&mut self, piece: usize) {
        let mut end = self.best.acts.len();
        while end > 0 {
            let start = end.saturating_sub(piece);
            let mut acts = self.best.acts.clone();
            acts.drain(start..end);
            self.keep(acts);
            end = start;
        }
    }

    /// Takes the list if it fails in the same way.
    fn keep(&mut self, acts: Vec<Act>) -> bool {
        if self.tries == TRIES_MAX {
            return false;
        }
        self.tries += 1;
        let script = Script { acts, ..self.best.clone() };
        let Some(failure) = (self.fails)(&script).filter(|failure| failure.what.kind() == self.failure.what.kind()) else { return false };
        (self.best, self.failure) = (script, failure);
        true
    }
}
