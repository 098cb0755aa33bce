//! Admission: match the longest cached prefix, then reserve, all or nothing.

use super::behind::NOBODYS;
use super::{Home, Pool, ROOT, Row, Serial, take};
use crate::settle::Grant;
use crate::step::{BlockId, SeqId};
use crate::window::{Window, blocks_at_once};

/// A row that wants in.
struct Entrant<'a> {
    seq: SeqId,
    prompt: &'a [u32],
    chunk: u32,
    spare: u32,
    window: Option<Window>,
}

impl Pool {
    pub(super) fn admit(&mut self, seq: SeqId, prompt: &[u32], (chunk, spare): (u32, u32), window: Option<Window>) -> Option<Grant> {
        assert!(!self.rows.contains_key(&seq), "{seq:?} is admitted twice");
        assert!(!prompt.is_empty() && chunk > 0, "{seq:?} is admitted with nothing to compute");
        let entrant = Entrant { seq, prompt, chunk, spare, window };
        let mut matched = std::mem::take(&mut self.matched);
        self.match_prefix(prompt, &mut matched);
        let all = matched.len() * self.config.block_tokens as usize == prompt.len();
        let grant = if all {
            // At least one token is computed, and its K and V go into the last block, which others may share: work on a copy.
            // Where the copy does not fit, compute that block again.
            self.admit_copying(&entrant, &matched).or_else(|| {
                matched.pop();
                self.admit_sharing(&entrant, &matched)
            })
        } else {
            self.admit_sharing(&entrant, &matched)
        };
        matched.clear();
        self.matched = matched;
        grant
    }

    /// Blocks of the index that hold the prompt's first full blocks.
    pub(super) fn match_prefix(&self, prompt: &[u32], matched: &mut Vec<BlockId>) {
        let mut parent = ROOT;
        for tokens in prompt.chunks_exact(self.config.block_tokens as usize) {
            let Some(block) = self.index.find(parent, tokens) else {
                return;
            };
            matched.push(block);
            parent = self.index.serial(block);
        }
    }

    fn admit_sharing(&mut self, entrant: &Entrant, matched: &[BlockId]) -> Option<Grant> {
        let size = self.config.block_tokens;
        let (count, length) = (matched.len() as u32, entrant.prompt.len() as u32);
        let cached = count * size;
        let granted = cached.saturating_add(entrant.chunk).min(length);
        let (behind, shared) = matched.split_at(self.behind_at(cached, entrant.window));
        let new = self.blocks_for(granted) - count;
        let most = blocks_at_once(entrant.window, size, length, behind.len() as u32);
        if !self.fits(shared, most.saturating_sub(shared.len() as u32).max(new), entrant.spare) {
            return None;
        }
        let chain = matched.last().map_or(ROOT, |&block| self.index.serial(block));
        let mut table = Vec::with_capacity(self.blocks_for(length) as usize);
        let entries_behind = self.pass_over(behind, &mut table);
        shared.iter().for_each(|&block| self.blocks.share(block));
        table.extend_from_slice(shared);
        table.extend((0..new).map(|_| take(&mut self.blocks, &mut self.index)));
        let row = Row { table: table.clone(), given_up: behind.len() as u32, entries_behind, granted, sealed: cached, chain, pinned: None };
        self.rows.insert(entrant.seq, row);
        Some(Grant::Admitted { cached, table, copies: Vec::new() })
    }

    /// The whole prompt is cached: share all blocks but the last, copy that, and compute the last token.
    fn admit_copying(&mut self, entrant: &Entrant, matched: &[BlockId]) -> Option<Grant> {
        let granted = entrant.prompt.len() as u32;
        let (behind, read) = matched.split_at(self.behind_at(granted - 1, entrant.window));
        let (&source, shared) = read.split_last()?;
        // A block of one token is computed again as cheaply as it is copied.
        if self.config.block_tokens == 1 || !self.fits(read, 1, entrant.spare) {
            return None;
        }
        let chain = self.index.parent(source);
        let mut table = Vec::with_capacity(matched.len());
        let entries_behind = self.pass_over(behind, &mut table);
        read.iter().for_each(|&block| self.blocks.share(block));
        let copy = take(&mut self.blocks, &mut self.index);
        self.index.copy(source, copy);
        table.extend_from_slice(shared);
        table.push(copy);
        let row = Row { table: table.clone(), given_up: behind.len() as u32, entries_behind, granted, sealed: granted - 1, chain, pinned: Some(source) };
        self.rows.insert(entrant.seq, row);
        Some(Grant::Admitted { cached: granted - 1, table, copies: vec![(source, copy)] })
    }

    /// How many blocks lie behind the window of a row that computes position `start` next.
    fn behind_at(&self, start: u32, window: Option<Window>) -> usize {
        window.map_or(0, |window| (window.reads_from(start) / self.config.block_tokens) as usize)
    }

    /// Enters cached blocks into a table as given up. They count as used, because what the row does use can be found through them
    /// only. Gives their entries.
    fn pass_over(&mut self, behind: &[BlockId], table: &mut Vec<BlockId>) -> Vec<(BlockId, Serial)> {
        table.resize(behind.len(), NOBODYS);
        behind.iter().rev().for_each(|&block| self.blocks.touch(block));
        behind.iter().map(|&block| (block, self.index.serial(block))).collect()
    }

    /// Whether `new` blocks, and `spare` more, are there once the `shared` ones are in use.
    fn fits(&self, shared: &[BlockId], new: u32, spare: u32) -> bool {
        let revived = shared.iter().filter(|&&b| self.blocks.home(b) == Home::Cached).count() as u32;
        new.saturating_add(spare) <= self.blocks.available() - revived
    }
}
