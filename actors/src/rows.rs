//! The rows in the house, one line each, for whoever looks. Each Request actor keeps its own line, on whichever HTTP thread it
//! lives, and readers take a copy: nobody asks an actor, and nobody waits for one.

use dashmap::DashMap;
use kv::SeqId;
use serde::Serialize;
use std::sync::Arc;

/// One request that is waiting or running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowStats {
    /// The request's id, as the client knows it.
    pub id: String,
    pub phase: Phase,
    pub prompt_tokens: u32,
    pub cached_tokens: u32,
    pub generated_tokens: u32,
    pub preemptions: u32,
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

    /// A copy, in the order in which the requests came.
    pub(crate) fn rows(&self) -> Vec<RowStats> {
        let mut all: Vec<(SeqId, RowStats)> = self.0.iter().map(|line| (*line.key(), line.value().clone())).collect();
        all.sort_by_key(|(seq, _)| *seq);
        all.into_iter().map(|(_, row)| row).collect()
    }
}

impl Line {
    pub(crate) fn note(&self, change: impl FnOnce(&mut RowStats)) {
        if let Some(mut row) = self.board.0.get_mut(&self.seq) {
            change(&mut row);
        }
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
        RowStats { id: id.into(), phase: Phase::Queued, prompt_tokens: 3, cached_tokens: 0, generated_tokens: 0, preemptions: 0 }
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
