//! The rows in the house, one line each, for whoever looks. Each Request actor keeps its own line, on whichever HTTP thread it
//! lives, and readers take a copy: nobody asks an actor, and nobody waits for one.

use dashmap::DashMap;
use kv::SeqId;
use serde::{Serialize, Serializer};
use std::sync::Arc;
use std::time::Instant;

/// One request that is waiting or running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowStats {
    /// Its own number, which no other row has had or will have. A client may give its id to several requests, and several answers have one.
    pub row: u64,
    /// The request's id, as the client knows it.
    pub id: String,
    /// The name of the key that asked.
    pub key: String,
    pub phase: Phase,
    pub prompt_tokens: u32,
    pub cached_tokens: u32,
    /// Of the prompt, those whose K and V are there, or being computed in a step at the worker.
    pub prefilled_tokens: u32,
    pub generated_tokens: u32,
    pub max_tokens: u32,
    pub preemptions: u32,
    /// Since the request came.
    #[serde(rename = "age_ms", serialize_with = "age_ms")]
    pub came: Instant,
}

fn age_ms<S: Serializer>(came: &Instant, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(came.elapsed().as_millis() as u64)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Queued,
    Prefill,
    Decode,
}

/// All lines.
#[derive(Debug, Default)]
pub(crate) struct Board(DashMap<SeqId, RowStats>);

/// One row's line. Dropping it takes the line away, however its actor ended.
#[derive(Debug)]
pub(crate) struct Line {
    board: Arc<Board>,
    seq: SeqId,
}

impl Board {
    pub(crate) fn put(self: &Arc<Self>, seq: SeqId, row: RowStats) -> Line {
        self.0.insert(seq, row);
        Line { board: Arc::clone(self), seq }
    }

    /// Changes the line of a row that is here.
    pub(crate) fn note(&self, seq: SeqId, change: impl FnOnce(&mut RowStats)) {
        if let Some(mut row) = self.0.get_mut(&seq) {
            change(&mut row);
        }
    }

    /// A copy, in the order in which the requests came.
    pub(crate) fn rows(&self) -> Vec<RowStats> {
        let mut all: Vec<(SeqId, RowStats)> = self.0.iter().map(|line| (*line.key(), line.value().clone())).collect();
        all.sort_by_key(|(seq, _)| *seq);
        all.into_iter().map(|(_, row)| row).collect()
    }
}

impl Line {
    pub(crate) fn note(&self, change: impl FnOnce(&mut RowStats)) {
        self.board.note(self.seq, change);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.board.0.remove(&self.seq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str) -> RowStats {
        RowStats {
            row: 0,
            id: id.into(),
            key: "team".into(),
            phase: Phase::Queued,
            prompt_tokens: 3,
            cached_tokens: 0,
            prefilled_tokens: 0,
            generated_tokens: 0,
            max_tokens: 9,
            preemptions: 0,
            came: Instant::now(),
        }
    }

    #[test]
    fn lines_come_change_and_go() {
        let board = Arc::new(Board::default());
        let second = board.put(SeqId(2), row("b"));
        let first = board.put(SeqId(1), row("a"));
        first.note(|r| r.generated_tokens += 1);
        let seen: Vec<(String, u32)> = board.rows().into_iter().map(|r| (r.id, r.generated_tokens)).collect();
        assert_eq!(seen, [("a".to_owned(), 1), ("b".to_owned(), 0)]);
        drop(second);
        assert_eq!(board.rows().len(), 1);
        drop(first);
        assert_eq!(board.rows(), []);
    }
}
