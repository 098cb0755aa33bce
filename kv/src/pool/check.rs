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
            let walked: Vec<BlockId> = self.blocks.walk(home).take(self.blocks.total() as usize + 1).collect();
            for &block in &walked {
                ensure(K2, self.blocks.home(block) == home, || format!("{block:?} in {home:?}"))?;
            }
            let (count, len) = (walked.len() as u32, self.blocks.len(home));
            ensure(K1, count == len, || format!("{home:?}: {count} walked, {len} counted"))?;
            let back = self.blocks.walk_back(home);
            ensure(K1, back.eq(walked.iter().rev().copied()), || format!("{home:?} is another list from its end"))?;
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
            let filling = row.table.get(sealed as usize).filter(|_| !row.sealed.is_multiple_of(self.config.block_tokens));
            ensure(K4, filling.is_none_or(|block| *block == row.filling), || format!("{seq:?} fills {:?}, not {filling:?}", row.filling))?;
            for &block in &row.table[(row.sealed / self.config.block_tokens) as usize..] {
                let own = self.blocks.refs(block) == 1 && !self.index.contains(block);
                ensure(K4, own, || format!("{seq:?} will write {block:?}, which others may read"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::Invariant;
    use crate::pool::index::ROOT;
    use crate::pool::{PoolConfig, Row};
    use crate::settle::{Want, Wants};
    use crate::step::SeqId;

    /// Eight blocks of four tokens. A row has blocks 1 to 3 and computed nine tokens.
    fn pool() -> Pool {
        let mut pool = Pool::new(PoolConfig { blocks: 8, block_tokens: 4, block_bytes: 10, prefix_cache: true });
        let seq = SeqId(1);
        let tokens: Vec<u32> = (1..=12).collect();
        let admit = Want::Admit { seq, prompt: tokens.clone().into(), chunk: 99, spare: 0, window: None };
        pool.settle(Wants::new(1, vec![admit, Want::Seal { seq, tokens: tokens[..9].into() }]));
        pool
    }

    fn row(pool: &mut Pool) -> &mut Row {
        pool.rows.get_mut(&SeqId(1)).unwrap()
    }

    /// The row's first `count` blocks go back.
    fn drop_blocks(pool: &mut Pool, count: u32) {
        (1..=count).map(BlockId).for_each(|block| pool.blocks.drop_ref(block, None, pool.index.contains(block)));
        row(pool).given_up = count;
    }

    /// Enters a block at the root, whatever is there already.
    fn enter(pool: &mut Pool, block: BlockId) {
        let bucket = pool.index.bucket(ROOT, pool.index.tokens(block));
        pool.index.insert(block, ROOT, bucket);
    }

    type Damage = fn(&mut Pool);

    #[test]
    fn damage_to_rows_and_index_is_noticed() {
        let rows: &[(&str, Damage, Option<Invariant>)] = &[
            ("none", |_| {}, None),
            ("as many blocks in use as are paid for", |pool| pool.config.blocks = 3, None),
            ("one more than that", |pool| pool.config.blocks = 2, Some(K6)),
            ("block 0 in a row", |pool| row(pool).table[0] = NOBODYS, Some(K6)),
            ("granted more than the table holds", |pool| row(pool).granted = 13, Some(K5)),
            ("sealed more than the table holds", |pool| row(pool).sealed = 13, Some(K5)),
            ("a pinned block without a reference", |pool| row(pool).pinned = Some(BlockId(2)), Some(K3)),
            ("given up, but still in the table", |pool| drop_blocks(pool, 1), Some(K3)),
            (
                "given up before it is sealed",
                |pool| {
                    drop_blocks(pool, 3);
                    row(pool).table.fill(NOBODYS);
                },
                Some(K3),
            ),
            ("writes a block that is in the index", |pool| row(pool).sealed = 7, Some(K4)),
            (
                "writes a block that somebody else reads",
                |pool| {
                    pool.blocks.share(BlockId(3));
                    row(pool).pinned = Some(BlockId(3));
                },
                Some(K4),
            ),
            ("fills a block that is not the next", |pool| row(pool).filling = BlockId(2), Some(K4)),
            ("a free block in the index", |pool| enter(pool, BlockId(8)), Some(K4)),
            (
                "a cached block that is not in the index",
                |pool| {
                    pool.release(SeqId(1), None);
                    pool.index.remove(BlockId(2));
                },
                Some(K4),
            ),
            (
                "two entries of the same tokens",
                |pool| {
                    pool.index.copy(BlockId(1), BlockId(3));
                    enter(pool, BlockId(3));
                },
                Some(K4),
            ),
        ];
        for (what, damage, violated) in rows {
            let mut pool = pool();
            damage(&mut pool);
            assert_eq!(pool.check().err().map(|violation| violation.invariant), *violated, "{what}");
        }
    }
}
