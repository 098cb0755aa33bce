//! Answers that are kept for later turns, in memory and within bounds.
//!
//! Each key has its own: nobody's id leads to another key's answer. Where there is too much, the key that has most loses its oldest, so that
//! one key's many long conversations do not push out another's few.

use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that all answers may take together, their conversations included: a hundred conversations that fill a context of 128,000 tokens.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// Answers, whatever their size.
const COUNT_MAX: usize = 4096;
/// What a value takes beside its text: its place in an array or an object.
const VALUE_BYTES: usize = 64;

/// An answer that can be asked for again and gone on from.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// The response object as it was sent.
    pub(crate) body: String,
    /// All that was said up to and with the answer, as a template reads it; instructions are not in it.
    pub(crate) messages: Vec<Value>,
}

impl Stored {
    fn bytes(&self) -> usize {
        self.body.len() + self.messages.iter().map(bytes).sum::<usize>()
    }
}

fn bytes(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(bytes).sum(),
            Value::Object(fields) => fields.iter().map(|(name, value)| VALUE_BYTES + name.len() + bytes(value)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

/// Shared by all HTTP workers.
#[derive(Debug)]
pub(crate) struct Store {
    shelves: Mutex<Shelves>,
    bytes_max: usize,
    count_max: usize,
}

#[derive(Debug, Default)]
struct Shelves {
    /// By a key's number.
    of: BTreeMap<u32, Shelf>,
    bytes: usize,
    count: usize,
    next: u64,
}

/// One key's answers, oldest first.
#[derive(Debug, Default)]
struct Shelf {
    answers: BTreeMap<u64, (String, Arc<Stored>)>,
    places: HashMap<String, u64>,
    bytes: usize,
}

impl Default for Store {
    fn default() -> Store {
        Store::new(BYTES_MAX, COUNT_MAX)
    }
}

impl Store {
    pub(crate) fn new(bytes_max: usize, count_max: usize) -> Store {
        Store { shelves: Mutex::default(), bytes_max, count_max }
    }

    /// One that is too large by itself is not kept.
    pub(crate) fn put(&self, key: u32, id: String, stored: Stored) {
        let size = stored.bytes();
        if size > self.bytes_max {
            return;
        }
        self.with(|all| {
            all.remove(key, &id);
            let place = all.next;
            all.next += 1;
            let shelf = all.of.entry(key).or_default();
            shelf.places.insert(id.clone(), place);
            shelf.answers.insert(place, (id, Arc::new(stored)));
            shelf.bytes += size;
            all.bytes += size;
            all.count += 1;
            while all.bytes > self.bytes_max || all.count > self.count_max {
                let Some((&fullest, shelf)) = all.of.iter().max_by_key(|(_, shelf)| shelf.bytes) else { return };
                let oldest = shelf.answers.first_key_value().map(|(_, (id, _))| id.clone());
                let Some(oldest) = oldest else { return };
                all.remove(fullest, &oldest);
            }
        });
    }

    pub(crate) fn get(&self, key: u32, id: &str) -> Option<Arc<Stored>> {
        self.with(|all| {
            let shelf = all.of.get(&key)?;
            Some(Arc::clone(&shelf.answers.get(shelf.places.get(id)?)?.1))
        })
    }

    /// Whether it was there.
    pub(crate) fn remove(&self, key: u32, id: &str) -> bool {
        self.with(|all| all.remove(key, id))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Shelves) -> T) -> T {
        // Nothing in here panics halfway.
        work(&mut self.shelves.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shelves {
    fn remove(&mut self, key: u32, id: &str) -> bool {
        let Some(shelf) = self.of.get_mut(&key) else { return false };
        let Some((_, stored)) = shelf.places.remove(id).and_then(|place| shelf.answers.remove(&place)) else { return false };
        let size = stored.bytes();
        shelf.bytes -= size;
        self.bytes -= size;
        self.count -= 1;
        if shelf.answers.is_empty() {
            self.of.remove(&key);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(len: usize) -> Stored {
        Stored { body: "x".repeat(len), messages: Vec::new() }
    }

    fn put(store: &Store, key: u32, id: &str, len: usize) {
        store.put(key, id.to_owned(), of(len));
    }

    /// Which of these are there, and that the counters say so.
    fn there(store: &Store, ids: &[(u32, &str)]) -> Vec<bool> {
        store.with(|all| {
            let answers = |shelf: &Shelf| shelf.answers.values().map(|(_, stored)| stored.bytes()).sum::<usize>();
            assert!(all.of.values().all(|shelf| shelf.bytes == answers(shelf) && shelf.places.len() == shelf.answers.len() && !shelf.answers.is_empty()));
            assert_eq!(all.bytes, all.of.values().map(|shelf| shelf.bytes).sum::<usize>());
            assert_eq!(all.count, all.of.values().map(|shelf| shelf.answers.len()).sum::<usize>());
            assert!(all.bytes <= store.bytes_max && all.count <= store.count_max);
        });
        ids.iter().map(|(key, id)| store.get(*key, id).is_some()).collect()
    }

    #[test]
    fn the_oldest_goes_first_by_bytes_and_by_count() {
        let store = Store::new(100, 3);
        put(&store, 0, "a", 40);
        put(&store, 0, "b", 40);
        put(&store, 0, "c", 40);
        assert_eq!(there(&store, &[(0, "a"), (0, "b"), (0, "c")]), [false, true, true]);
        put(&store, 0, "huge", 101);
        assert_eq!(there(&store, &[(0, "huge"), (0, "b"), (0, "c")]), [false, true, true]);
        put(&store, 0, "d", 1);
        put(&store, 0, "e", 1);
        assert_eq!(there(&store, &[(0, "b"), (0, "c"), (0, "d"), (0, "e")]), [false, true, true, true]);
    }

    #[test]
    fn a_key_sees_and_removes_its_own_and_the_fullest_gives_way() {
        let store = Store::new(100, 10);
        put(&store, 1, "a", 20);
        put(&store, 2, "b", 40);
        put(&store, 2, "c", 40);
        assert_eq!(there(&store, &[(1, "a"), (2, "a"), (2, "b")]), [true, false, true]);
        put(&store, 1, "d", 10);
        assert_eq!(there(&store, &[(1, "a"), (2, "b"), (2, "c"), (1, "d")]), [true, false, true, true]);
        assert!(!store.remove(1, "c") && store.remove(2, "c") && !store.remove(2, "c"));
        assert_eq!(there(&store, &[(1, "a"), (2, "c"), (1, "d")]), [true, false, true]);
    }

    #[test]
    fn messages_weigh_too() {
        let small = of(0).bytes();
        let messages = vec![serde_json::json!({"role": "user", "content": "x".repeat(1000), "tool_calls": [{"a": 1}]})];
        assert!(Stored { body: String::new(), messages }.bytes() > small + 1000 + 4 * VALUE_BYTES);
    }
}
