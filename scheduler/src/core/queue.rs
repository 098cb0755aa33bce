//! Rows that wait for their first admission: by key, then by priority, then by arrival.

use super::fair::{Accounts, prompt_charge};
use super::row::Row;
use crate::submit::KeyId;
use kv::SeqId;
use std::collections::{BTreeMap, BTreeSet};

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

    /// All waiting rows in the order of admission: the least charged key next, each row charged its prompt as if it were admitted.
    pub(super) fn in_order<'a>(&'a self, accounts: &'a Accounts) -> impl Iterator<Item = SeqId> + 'a {
        let mut heads: Vec<_> = self.keys.iter().map(|(key, places)| (accounts.charged(*key), places.iter().peekable())).collect();
        std::iter::from_fn(move || {
            let (charged, places) = heads
                .iter_mut()
                .filter_map(|(charged, places)| {
                    let arrival = places.peek()?.arrival;
                    Some(((*charged, arrival), (charged, places)))
                })
                .min_by_key(|(order, _)| *order)?
                .1;
            let place = places.next()?;
            *charged += prompt_charge(place.prompt, place.weight);
            Some(place.seq)
        })
    }
}
