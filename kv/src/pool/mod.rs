//! The pool: who holds which block. It settles lists in order, and never chooses a victim.

mod admit;
mod behind;
mod blocks;
mod check;
mod index;

use crate::settle::{Grant, Ledger, Settled, Want, Wants};
use crate::step::{BlockId, SeqId, StepId};
use blocks::{Blocks, Home};
pub use index::fold;
use index::{Index, ROOT, Serial};
use std::collections::BTreeMap;

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
    rows: BTreeMap<SeqId, Row>,
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
    /// The entry of the row's last full block.
    chain: Serial,
    /// Source of the row's copy-on-write: it stays until the row's first seal, which says that the copying step is done.
    pinned: Option<BlockId>,
}

impl Pool {
    pub fn new(config: PoolConfig) -> Pool {
        assert!(config.block_tokens > 0, "a block holds at least one token");
        Pool { blocks: Blocks::new(config.blocks), index: Index::new(config.blocks, config.block_tokens), rows: BTreeMap::new(), matched: Vec::new(), config }
    }

    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Settles the list in order and stops at the first shortfall. A release, seal, behind, done, forget or void never falls short.
    /// A row that grows without being admitted, is admitted twice, or gives up what it has not sealed, is the caller's bug and
    /// panics: going on would give one row's memory to another.
    pub fn settle(&mut self, wants: Wants) -> Settled {
        let mut grants = Vec::new();
        for want in &wants.list {
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
        Settled { turn: wants.turn, grants, ledger: self.ledger() }
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
        let new: Vec<BlockId> = (0..need).map(|_| take(&mut self.blocks, &mut self.index)).collect();
        row.table.extend_from_slice(&new);
        row.granted = row.granted.max(tokens);
        Some(Grant::Grown { new, copies: Vec::new() })
    }

    fn release(&mut self, seq: SeqId, after: Option<StepId>) {
        let Some(row) = self.rows.remove(&seq) else {
            return;
        };
        self.blocks.unpin(row.pinned, after, &self.index);
        // Tails first: a chain is evicted from its end, so that what is left of it can still be reached.
        for &block in row.blocks().iter().rev() {
            self.blocks.drop_ref(block, after, self.index.contains(block));
        }
    }

    fn seal(&mut self, seq: SeqId, tokens: &[u32]) {
        let Some(row) = self.rows.get_mut(&seq) else {
            return;
        };
        // The step that copied is done. Let go of the source first: the copy may take its place in the index.
        self.blocks.unpin(row.pinned.take(), None, &self.index);
        let size = self.config.block_tokens;
        for &token in tokens {
            let room = row.table.len() as u32 * size;
            assert!(row.sealed < room, "{seq:?} seals tokens that it has no room for");
            let block = row.table[(row.sealed / size) as usize];
            self.index.write(block, (row.sealed % size) as usize, token);
            row.sealed += 1;
            if row.sealed.is_multiple_of(size) && self.config.prefix_cache {
                row.chain = enter(&mut self.index, &mut self.blocks, row.chain, block);
            }
        }
    }

    fn forget(&mut self, seq: SeqId, tokens: &[u32]) {
        let Some(row) = self.rows.get(&seq) else {
            let mut matched = Vec::new();
            self.match_prefix(tokens, &mut matched);
            for block in matched {
                self.index.remove(block);
                self.blocks.unindexed(block);
            }
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

    fn void(&mut self) {
        self.rows.clear();
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
    let Some(twin) = index.find(parent, index.tokens(block)) else {
        return index.insert(block, parent);
    };
    let serial = index.serial(twin);
    if blocks.refs(twin) == 0 {
        index.hand_over(twin, block);
        blocks.unindexed(twin);
    }
    serial
}
