//! K1 to K6, checked from scratch: O(blocks × tokens), for tests and for a debug build's worst moments.

use super::behind::NOBODYS;
use super::{Home, Pool};
use crate::invariants::Invariant::{K1, K2, K3, K4, K5, K6};
use crate::invariants::{Violation, ensure};
use crate::step::BlockId;

const LISTS: [Home; 3] = [Home::Free, Home::Cached, Home::Held];

impl Pool {
    /// Every invariant of the pool.
    pub fn check(&self) -> Result<(), Violation> {
        self.check_counts()?;
        self.check_lists()?;
        self.check_references()?;
        self.check_index()?;
        self.check_tables()
    }

    /// What a debug build asserts after every settlement: O(1).
    pub(super) fn check_counts(&self) -> Result<(), Violation> {
        let ledger = self.ledger();
        let sum = ledger.rows + ledger.prefix + ledger.held + ledger.free;
        ensure(K1, sum == ledger.total, || format!("{ledger:?}"))?;
        let used = u64::from(ledger.total - ledger.free) * ledger.block_bytes;
        let budget = u64::from(self.config.blocks) * self.config.block_bytes;
        ensure(K6, used <= budget, || format!("{used} of {budget} bytes"))
    }

    fn all(&self) -> impl Iterator<Item = BlockId> {
        (1..=self.blocks.total()).map(BlockId)
    }

    fn check_lists(&self) -> Result<(), Violation> {
        let mut listed = 0;
        for home in LISTS {
            let walked = self.blocks.walk(home).take(self.blocks.total() as usize + 1);
            let mut count = 0;
            for block in walked {
                count += 1;
                ensure(K2, self.blocks.home(block) == home, || format!("{block:?} in {home:?}"))?;
                ensure(K6, block.0 != 0, || "block 0 is listed".into())?;
            }
            let len = self.blocks.len(home);
            ensure(K1, count == len, || format!("{home:?}: {count} walked, {len} counted"))?;
            listed += count;
        }
        let rows = self.all().filter(|&b| self.blocks.home(b) == Home::Rows).count() as u32;
        ensure(K1, listed + rows == self.blocks.total(), || format!("{listed} listed, {rows} used"))
    }

    fn check_references(&self) -> Result<(), Violation> {
        let mut counted = vec![0u32; self.blocks.total() as usize + 1];
        for row in self.rows.values() {
            for block in row.blocks().iter().chain(&row.pinned) {
                counted[block.0 as usize] += 1;
            }
        }
        ensure(K6, counted[0] == 0, || "block 0 is among a row's blocks".into())?;
        for block in self.all() {
            let (refs, count) = (self.blocks.refs(block), counted[block.0 as usize]);
            ensure(K3, refs == count, || format!("{block:?}: {refs} references, {count} counted"))?;
            let home = self.blocks.home(block);
            ensure(K2, (refs == 0) == (home != Home::Rows), || format!("{block:?}: {refs} in {home:?}"))?;
        }
        Ok(())
    }

    fn check_index(&self) -> Result<(), Violation> {
        for block in self.all() {
            let indexed = self.index.contains(block);
            if indexed {
                let found = self.index.find(self.index.parent(block), self.index.tokens(block));
                ensure(K4, found == Some(block), || format!("{block:?} found as {found:?}"))?;
            }
            let fits = match self.blocks.home(block) {
                Home::Free => !indexed,
                Home::Cached => indexed,
                Home::Rows | Home::Held => true,
            };
            ensure(K4, fits, || format!("{block:?}: indexed {indexed}, {:?}", self.blocks.home(block)))?;
        }
        Ok(())
    }

    fn check_tables(&self) -> Result<(), Violation> {
        for (seq, row) in &self.rows {
            let need = self.blocks_for(row.granted) as usize;
            ensure(K5, row.table.len() == need, || format!("{seq:?}: {} blocks for {} tokens", row.table.len(), row.granted))?;
            let behind = row.table.iter().take_while(|block| **block == NOBODYS).count() as u32;
            ensure(K3, behind == row.given_up, || format!("{seq:?}: {behind} places of block 0, {} given up", row.given_up))?;
            let sealed = row.sealed / self.config.block_tokens;
            ensure(K3, behind <= sealed, || format!("{seq:?}: {behind} blocks given up, {sealed} sealed"))?;
            let room = row.table.len() as u32 * self.config.block_tokens;
            ensure(K5, row.sealed <= room, || format!("{seq:?}: {} sealed", row.sealed))?;
            for &block in &row.table[(row.sealed / self.config.block_tokens) as usize..] {
                let own = self.blocks.refs(block) == 1 && !self.index.contains(block);
                ensure(K4, own, || format!("{seq:?} will write {block:?}, which others may read"))?;
            }
        }
        Ok(())
    }
}
