//! Rows that wait for their first admission: by key, then by priority, then by arrival.

use super::fair::Accounts;
use super::row::Row;
use crate::submit::KeyId;
use kv::SeqId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

#[derive(Debug, Default)]
pub(super) struct Queue {
    keys: BTreeMap<KeyId, BTreeSet<Place>>,
    len: u32,
}

/// Sorts as the queue of a key is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    priority: i32,
    arrival: u64,
    seq: SeqId,
    prompt: u32,
    weight: u32,
}

impl Place {
    fn of(row: &Row) -> Place {
        Place { priority: row.submit.priority, arrival: row.arrival, seq: row.seq(), prompt: row.submit.prompt.len() as u32, weight: row.submit.weight }
    }
}

impl Queue {
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn push(&mut self, row: &Row) {
        self.keys.entry(row.submit.key).or_default().insert(Place::of(row));
        self.len += 1;
    }

    pub(super) fn remove(&mut self, row: &Row) {
        let Some(places) = self.keys.get_mut(&row.submit.key) else {
            return;
        };
        if places.remove(&Place::of(row)) {
            self.len -= 1;
        }
        if places.is_empty() {
            self.keys.remove(&row.submit.key);
        }
    }

    /// All waiting rows in the order of admission: the key that stands first goes next, each row charged its prompt as if it were
    /// admitted. Of keys that stand alike it is the one whose row came first.
    pub(super) fn in_order<'a>(&'a self, accounts: &'a Accounts) -> impl Iterator<Item = SeqId> + 'a {
        let mut places: Vec<_> = self.keys.values().map(BTreeSet::iter).collect();
        let head = |standing, places: &mut std::collections::btree_set::Iter<'a, Place>, key| {
            let place = places.next()?;
            Some(Reverse((standing, place.arrival, key, place)))
        };
        let heads = self.keys.keys().zip(&mut places).enumerate();
        let mut heads: BinaryHeap<_> = heads.filter_map(|(key, (id, places))| head(accounts.standing(*id), places, key)).collect();
        std::iter::from_fn(move || {
            let Reverse((standing, _, key, place)) = heads.pop()?;
            heads.extend(head(standing.after(place.prompt, place.weight), &mut places[key], key));
            Some(place.seq)
        })
    }
}
