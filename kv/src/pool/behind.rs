//! What lies behind a row's window goes back while the row runs.

use super::{Pool, Row};
use crate::step::{BlockId, SeqId, StepId};

/// Stands in a table for a block that was given up.
pub(super) const NOBODYS: BlockId = BlockId(0);

impl Row {
    /// The blocks that the row holds, in order: its table without the places that were given up.
    pub(super) fn blocks(&self) -> &[BlockId] {
        &self.table[self.given_up as usize..]
    }
}

impl Pool {
    /// Gives up the whole blocks below `tokens`. One that is in the index stays there for whoever begins alike, until it is evicted.
    pub(super) fn behind(&mut self, seq: SeqId, tokens: u32, after: Option<StepId>) {
        let Some(row) = self.rows.get_mut(&seq) else {
            return;
        };
        assert!(tokens <= row.sealed, "{seq:?} gives up position {tokens} of {} that are computed", row.sealed);
        let places = row.given_up as usize..((tokens / self.config.block_tokens) as usize).max(row.given_up as usize);
        // Tails first, as in a release.
        for place in row.table[places.clone()].iter_mut().rev() {
            let block = std::mem::replace(place, NOBODYS);
            let indexed = self.index.contains(block);
            if indexed {
                row.entries_behind.push((block, self.index.serial(block)));
            }
            self.blocks.drop_ref(block, after, indexed);
        }
        row.given_up = places.end as u32;
    }
}
