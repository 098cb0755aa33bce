//! Admission: match the longest cached prefix, then reserve, all or nothing.

use super::behind::NOBODYS;
use super::{Home, Pool, ROOT, Row, take};
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
        let mut row = self.pass_over(behind);
        shared.iter().for_each(|&block| self.blocks.share(block));
        row.table.extend_from_slice(shared);
        row.table.extend((0..new).map(|_| take(&mut self.blocks, &mut self.index)));
        Some(self.enter(entrant, Row { granted, sealed: cached, chain, ..row }, None))
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
        let mut row = self.pass_over(behind);
        read.iter().for_each(|&block| self.blocks.share(block));
        let copy = take(&mut self.blocks, &mut self.index);
        self.index.copy(source, copy);
        row.table.extend_from_slice(shared);
        row.table.push(copy);
        let row = Row { granted, sealed: granted - 1, filling: copy, chain, pinned: Some(source), ..row };
        Some(self.enter(entrant, row, Some((source, copy))))
    }

    fn enter(&mut self, entrant: &Entrant, row: Row, copy: Option<(BlockId, BlockId)>) -> Grant {
        let mut table = Vec::with_capacity(self.blocks_for(entrant.prompt.len() as u32) as usize);
        table.extend_from_slice(&row.table);
        let cached = row.sealed;
        self.rows.insert(entrant.seq, row);
        Grant::Admitted { cached, table, copy }
    }

    /// How many blocks lie behind the window of a row that computes position `start` next.
    fn behind_at(&self, start: u32, window: Option<Window>) -> usize {
        window.map_or(0, |window| (window.reads_from(start) / self.config.block_tokens) as usize)
    }

    /// A row that has given up so many cached blocks. They count as used, because what the row does use can be found through them only.
    fn pass_over(&mut self, behind: &[BlockId]) -> Row {
        let mut row = self.gone.pop().unwrap_or_else(|| Row::empty(Vec::new(), Vec::new()));
        row.given_up = behind.len() as u32;
        row.table.resize(behind.len(), NOBODYS);
        behind.iter().rev().for_each(|&block| self.blocks.touch(block));
        row.entries_behind.extend(behind.iter().map(|&block| (block, self.index.serial(block))));
        row
    }

    /// Whether `new` blocks, and `spare` more, are there once the `shared` ones are in use.
    fn fits(&self, shared: &[BlockId], new: u32, spare: u32) -> bool {
        let revived = shared.iter().filter(|&&b| self.blocks.home(b) == Home::Cached).count() as u32;
        new.saturating_add(spare) <= self.blocks.available() - revived
    }
}
