//! S8 as a number: of two keys that both have rows waiting, neither gets ahead of the other by more than a constant, over any interval.
//! Counted from what the clients saw and from nothing that the scheduler says.
//!
//! The constant, in weighted tokens. Let C be a key's charge, `B_g` what a full batch of g's longest rows costs, prompts and answers, by
//! g's weight, and B the largest of these. While `f` waits, and for any `g`, `C_g - C_f <= B`:
//! - A row of `g` is asked for only while `C_g <= C_f`, by the plan. From then on `g` is charged for rows that run, or are asked for, and
//!   for no others: there are no more than a batch of them. `C_f` only grows.
//! - When `g` begins to wait with none of its rows running it may start as late as the last one that waits, for which this holds, and is
//!   charged for nothing until it is asked for. With rows that run it starts at the least charge of those that wait, and they cost `B_g`.
//! - When `f` begins to wait it starts no lower than the least charge of those that wait, for which this holds; or if there are none, no
//!   lower than the last one that waited, for which it held, and since then only rows that ran were charged for.
//!
//! While both wait, what each is served is the growth of its charge. `C_f - C_g` is no less than -B at the interval's beginning; and where it
//! grows, by rows of `f` that run or are asked for, no more than `B_f` at its end. So over any interval `f` is served no more than `B_f + B`
//! beyond `g`. (Sheng et al., OSDI 2024, theorem 4.4, has twice the larger of a prompt's cost and a batch's: they count a batch by its tokens.)
//!
//! Rows of a key may be held back for a prefix that another row computes; then the key does not count as waiting. Priorities order the
//! rows of one key among themselves. Preemption takes a row's blocks and not its place: nobody enters before it runs again, and what is
//! computed twice is charged once.

use super::clients::Client;
use kv::Violation;
use kv::invariants::Invariant::S8;
use kv::invariants::ensure;
use scheduler::{Event, KeyId};
use std::collections::{BTreeMap, BTreeSet};

/// What a row may cost at most in this script, and how many run at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) row: u64,
    pub(crate) batch: u64,
}

/// Two keys, the smaller first, that have waited since the same moment.
#[derive(Debug, Default)]
struct Pair {
    /// How far the first is ahead of the second: served tokens times the other's weight, so that all is in whole numbers.
    ahead: i128,
    /// The least and the most of that so far.
    least: i128,
    most: i128,
}

#[derive(Debug)]
pub(crate) struct Bound {
    most: Most,
    weights: BTreeMap<KeyId, u64>,
    pairs: BTreeMap<(KeyId, KeyId), Pair>,
    /// How often a gap was a quarter of what is allowed, or more.
    pub(crate) apart: u64,
}

impl Bound {
    pub(crate) fn new(most: Most) -> Bound {
        Bound { most, weights: BTreeMap::new(), pairs: BTreeMap::new(), apart: 0 }
    }

    pub(crate) fn weigh(&mut self, key: KeyId, weight: u32) {
        self.weights.insert(key, u64::from(weight.max(1)));
    }

    /// Which keys wait now. Pairs of which one does not are over; new ones begin.
    pub(crate) fn wait(&mut self, keys: &BTreeSet<KeyId>) {
        self.keep(keys);
        for one in keys {
            for other in keys.range(one..).skip(1) {
                self.pairs.entry((*one, *other)).or_default();
            }
        }
    }

    /// Pairs of which one does not wait any more are over.
    pub(crate) fn keep(&mut self, keys: &BTreeSet<KeyId>) {
        self.pairs.retain(|(one, other), _| keys.contains(one) && keys.contains(other));
    }

    /// Counts what an event says that `client` was served.
    pub(crate) fn hear(&mut self, event: &Event, client: &Client) -> Result<(), Violation> {
        let tokens = match event {
            Event::Admitted { .. } => client.prompt.len() as u64,
            Event::Token { .. } => 2,
            Event::Finished { stop_token, .. } => 2 * u64::from(*stop_token),
            Event::Preempted { .. } | Event::Resumed { .. } => 0,
        };
        self.serve(client.key, tokens)
    }

    /// `key` was served so many tokens, drawn ones counted twice.
    fn serve(&mut self, key: KeyId, tokens: u64) -> Result<(), Violation> {
        let weight = |key: &KeyId| self.weights.get(key).copied().unwrap_or(1);
        for ((one, other), pair) in self.pairs.iter_mut().filter(|((one, other), _)| *one == key || *other == key) {
            let (light, heavy) = (weight(one), weight(other));
            pair.ahead += if *one == key { i128::from(tokens * heavy) } else { -i128::from(tokens * light) };
            (pair.least, pair.most) = (pair.least.min(pair.ahead), pair.most.max(pair.ahead));
            let gap = (pair.ahead - pair.least).max(pair.most - pair.ahead);
            // The scheduler rounds charges to 1/65536 of a token: one token is more than all roundings of a script.
            let all = (light * heavy).div_ceil(self.weights.values().copied().min().unwrap_or(1));
            let allowed = i128::from((self.most.row * self.most.batch + 1) * (light.max(heavy) + all));
            self.apart += u64::from(4 * gap >= allowed);
            ensure(S8, gap <= allowed, || format!("{one:?} and {other:?}, of weights {light} and {heavy}, are {gap} apart, {allowed} at most"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: KeyId = KeyId(1);
    const B: KeyId = KeyId(2);

    fn both_wait(weight: u32) -> Bound {
        let mut bound = Bound::new(Most { row: 10, batch: 2 });
        bound.weigh(A, 1);
        bound.weigh(B, weight);
        bound.wait(&BTreeSet::from([A, B]));
        bound
    }

    #[test]
    fn a_gap_is_counted_by_weight_and_from_any_moment_on() {
        // Weight of B, what is served in turn to A and to B, and whether the last of it is too much. Allowed is 21 for each key.
        type Served = &'static [(KeyId, u64)];
        let rows: &[(u32, Served, bool)] = &[
            (1, &[(A, 42)], false),
            (1, &[(A, 43)], true),
            (1, &[(B, 43)], true),
            (1, &[(A, 42), (B, 42), (A, 42)], false),
            (1, &[(A, 21), (B, 42), (A, 43)], true),
            (1, &[(B, 21), (A, 42), (B, 43)], true),
            // A third as much is as much: 3 a - b is 126 at most.
            (3, &[(A, 42)], false),
            (3, &[(A, 43)], true),
            (3, &[(B, 126)], false),
            (3, &[(B, 127)], true),
        ];
        for (weight, served, broken) in rows {
            let mut bound = both_wait(*weight);
            let (last, before) = served.split_last().unwrap();
            before.iter().for_each(|&(key, tokens)| bound.serve(key, tokens).unwrap());
            assert_eq!(bound.serve(last.0, last.1).is_err(), *broken, "{served:?} at weight {weight}");
        }
    }

    #[test]
    fn only_keys_that_both_wait_are_compared() {
        let mut bound = both_wait(1);
        bound.serve(A, 40).unwrap();
        // B has nothing waiting for a while; what A was served before, and is meanwhile, is its own.
        bound.wait(&BTreeSet::from([A]));
        bound.serve(A, 1000).unwrap();
        bound.wait(&BTreeSet::from([A, B]));
        bound.serve(A, 42).unwrap();
        assert!(bound.serve(A, 1).is_err());
    }
}
