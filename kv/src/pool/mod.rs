//! The pool: who holds which block. It settles lists in order, and never chooses a victim.

mod admit;
mod behind;
mod blocks;
mod check;
mod index;

use crate::by_seq::BySeq;
use crate::settle::{Grant, Ledger, NewBlocks, Settled, Want, Wants};
use crate::step::{BlockId, SeqId, StepId};
use behind::NOBODYS;
use blocks::{Blocks, Home};
pub use index::fold;
use index::{Index, ROOT, Serial};

/// What a pool is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolConfig {
    /// Usable blocks, numbered `1..=blocks`.
    pub blocks: u32,
    pub block_tokens: u32,
    /// Bytes of a block over all layers; only reported.
    pub block_bytes: u64,
    /// Whether full blocks are kept for later rows that start with the same tokens.
    pub prefix_cache: bool,
}

/// Blocks, rows' tables, and the prefix index.
#[derive(Debug)]
pub struct Pool {
    config: PoolConfig,
    blocks: Blocks,
    index: Index,
    rows: BySeq<Row>,
    /// Rows that are gone, empty, as many as there were at once: whoever is admitted takes their memory.
    gone: Vec<Row>,
    /// Reused by admissions, so that matching a prefix allocates nothing.
    matched: Vec<BlockId>,
}

/// One live row.
#[derive(Debug)]
struct Row {
    /// Its first places are of block 0: those behind the row's window, which were given up.
    table: Vec<BlockId>,
    /// How many those are.
    given_up: u32,
    /// Those of them that were in the index, by their entries then: should the row's numbers be bad, nobody may reuse them.
    entries_behind: Vec<(BlockId, Serial)>,
    /// Tokens that the table was granted for; there may be room for more in its last block.
    granted: u32,
    /// Positions `0 .. sealed` are computed, and their tokens known to the index.
    sealed: u32,
    /// The block of position `sealed`, if that is not the first of a block: the one place of the table that decoding needs.
    filling: BlockId,
    /// The entry of the row's last full block.
    chain: Serial,
    /// Source of the row's copy-on-write: it stays until the row's first seal, which says that the copying step is done.
    pinned: Option<BlockId>,
}

impl Row {
    /// A row of nothing, in this memory.
    fn empty(mut table: Vec<BlockId>, mut entries_behind: Vec<(BlockId, Serial)>) -> Row {
        table.clear();
        entries_behind.clear();
        Row { table, given_up: 0, entries_behind, granted: 0, sealed: 0, filling: NOBODYS, chain: ROOT, pinned: None }
    }
}

impl Pool {
    pub fn new(config: PoolConfig) -> Pool {
        assert!(config.block_tokens > 0, "a block holds at least one token");
        let (blocks, index) = (Blocks::new(config.blocks), Index::new(config.blocks, config.block_tokens));
        Pool { blocks, index, rows: BySeq::default(), gone: Vec::new(), matched: Vec::new(), config }
    }

    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Settles the list in order and stops at the first shortfall. A release, seal, behind, done, forget or void never falls short.
    /// A row that grows without being admitted, is admitted twice, or gives up what it has not sealed, is the caller's bug and
    /// panics: going on would give one row's memory to another.
    ///
    /// In the state that lasts nothing is allocated here but the tables that leave with admissions.
    pub fn settle(&mut self, Wants { turn, mut list, room: mut grants }: Wants) -> Settled {
        grants.clear();
        for want in &list {
            let grant = match want {
                Want::Grow { seq, tokens } => self.grow(*seq, *tokens),
                Want::Admit { seq, prompt, chunk, spare, window } => self.admit(*seq, prompt, (*chunk, *spare), *window),
                told => {
                    self.note(told);
                    continue;
                }
            };
            match grant {
                Some(grant) => grants.push(grant),
                None => break,
            }
        }
        debug_assert_eq!(self.check_counts(), Ok(()));
        list.clear();
        Settled { turn, grants, ledger: self.ledger(), room: list }
    }

    pub fn ledger(&self) -> Ledger {
        Ledger {
            block_bytes: self.config.block_bytes,
            total: self.blocks.total(),
            rows: self.blocks.len(Home::Rows),
            prefix: self.blocks.len(Home::Cached),
            held: self.blocks.len(Home::Held),
            free: self.blocks.len(Home::Free),
        }
    }

    /// What is told, not asked.
    fn note(&mut self, want: &Want) {
        match want {
            Want::Release { seq, after } => self.release(*seq, *after),
            Want::Seal { seq, tokens } => self.seal(*seq, tokens),
            Want::Behind { seq, tokens, after } => self.behind(*seq, *tokens, *after),
            Want::Forget { seq, tokens } => self.forget(*seq, tokens),
            Want::Done { step } => {
                self.blocks.step_done(*step, |block| self.index.contains(block));
            }
            Want::Flush => self.flush(),
            Want::Void => self.void(),
            Want::Grow { .. } | Want::Admit { .. } => unreachable!("asked, not told"),
        }
    }

    /// No copies here: the block that a row writes next is never shared, because sharing is of full blocks and an admission
    /// copies the one that it must write into.
    fn grow(&mut self, seq: SeqId, tokens: u32) -> Option<Grant> {
        let row = self.rows.get_mut(&seq).unwrap_or_else(|| panic!("{seq:?} grows but was not admitted"));
        let need = tokens.div_ceil(self.config.block_tokens).saturating_sub(row.table.len() as u32);
        if need > self.blocks.available() {
            return None;
        }
        let new: NewBlocks = (0..need).map(|_| take(&mut self.blocks, &mut self.index)).collect();
        row.table.extend_from_slice(&new);
        row.granted = row.granted.max(tokens);
        Some(Grant::Grown { new })
    }

    fn release(&mut self, seq: SeqId, after: Option<StepId>) {
        let Some(row) = self.rows.swap_remove(&seq) else {
            return;
        };
        self.blocks.unpin(row.pinned, after, &self.index);
        // Tails first: a chain is evicted from its end, so that what is left of it can still be reached.
        for &block in row.blocks().iter().rev() {
            self.blocks.drop_ref(block, after, self.index.contains(block));
        }
        self.gone.push(Row::empty(row.table, row.entries_behind));
    }

    fn seal(&mut self, seq: SeqId, tokens: &[u32]) {
        let Some(row) = self.rows.get_mut(&seq) else {
            return;
        };
        // The step that copied is done. Let go of the source first: the copy may take its place in the index.
        self.blocks.unpin(row.pinned.take(), None, &self.index);
        let size = self.config.block_tokens;
        let mut rest = tokens;
        while !rest.is_empty() {
            let offset = (row.sealed % size) as usize;
            if offset == 0 {
                let block = row.table.get((row.sealed / size) as usize);
                row.filling = *block.unwrap_or_else(|| panic!("{seq:?} seals tokens that it has no room for"));
            }
            let (now, later) = rest.split_at(rest.len().min(size as usize - offset));
            self.index.write(row.filling, offset, now);
            (row.sealed, rest) = (row.sealed + now.len() as u32, later);
            if offset + now.len() == size as usize && self.config.prefix_cache {
                row.chain = enter(&mut self.index, &mut self.blocks, row.chain, row.filling);
            }
        }
    }

    fn forget(&mut self, seq: SeqId, tokens: &[u32]) {
        let Some(row) = self.rows.get(&seq) else {
            let mut matched = std::mem::take(&mut self.matched);
            self.match_prefix(tokens, &mut matched);
            for block in matched.drain(..) {
                self.index.remove(block);
                self.blocks.unindexed(block);
            }
            self.matched = matched;
            return;
        };
        for &block in row.blocks() {
            self.index.remove(block);
        }
        for &(block, entry) in &row.entries_behind {
            // Evicted since, or given to another row, it is not the entry that it was.
            if self.index.serial(block) == entry {
                self.index.remove(block);
                self.blocks.unindexed(block);
            }
        }
    }

    fn flush(&mut self) {
        while let Some(block) = self.blocks.take_cached() {
            self.index.remove(block);
            self.blocks.drop_ref(block, None, false);
        }
    }

    fn void(&mut self) {
        self.gone.extend(self.rows.drain(..).map(|(_, row)| Row::empty(row.table, row.entries_behind)));
        self.index.clear();
        self.blocks = Blocks::new(self.config.blocks);
    }

    fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.config.block_tokens)
    }
}

/// A block with one reference: a free one, else the least recently used cached one. The caller has counted before.
fn take(blocks: &mut Blocks, index: &mut Index) -> BlockId {
    if let Some(block) = blocks.take_free() {
        return block;
    }
    let block = blocks.take_cached().expect("the caller counted the available blocks");
    index.remove(block);
    block
}

/// Enters a full block after `parent` and gives its entry. If the index has these tokens already in a block that no row uses, the
/// row's own block takes its place: one copy is enough, and the row keeps its chain reachable while it lives.
fn enter(index: &mut Index, blocks: &mut Blocks, parent: Serial, block: BlockId) -> Serial {
    let twin = match index.enter(block, parent) {
        Ok(serial) => return serial,
        Err(twin) => twin,
    };
    let serial = index.serial(twin);
    if blocks.refs(twin) == 0 {
        index.hand_over(twin, block);
        blocks.unindexed(twin);
    }
    serial
}
