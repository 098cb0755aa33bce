//! Admission: match the longest cached prefix, then reserve, all or nothing.

use super::{Home, Pool, ROOT, Row};
use crate::settle::Grant;
use crate::step::{BlockId, SeqId};

impl Pool {
    pub(super) fn admit(&mut self, seq: SeqId, prompt: &[u32], chunk: u32, spare: u32) -> Option<Grant> {
        assert!(!self.rows.contains_key(&seq), "{seq:?} is admitted twice");
        assert!(!prompt.is_empty() && chunk > 0, "{seq:?} is admitted with nothing to compute");
        let mut matched = std::mem::take(&mut self.matched);
        self.match_prefix(prompt, &mut matched);
        let all = matched.len() * self.config.block_tokens as usize == prompt.len();
        let grant = if all {
            // At least one token is computed, and its K and V go into the last block, which others may share: work on a copy.
            // Where the copy does not fit, compute that block again.
            self.admit_copying(seq, prompt, &matched, spare).or_else(|| {
                matched.pop();
                self.admit_sharing(seq, prompt, &matched, chunk, spare)
            })
        } else {
            self.admit_sharing(seq, prompt, &matched, chunk, spare)
        };
        matched.clear();
        self.matched = matched;
        grant
    }

    /// Blocks of the index that hold the prompt's first full blocks.
    fn match_prefix(&self, prompt: &[u32], matched: &mut Vec<BlockId>) {
        let mut parent = ROOT;
        for tokens in prompt.chunks_exact(self.config.block_tokens as usize) {
            let Some(block) = self.index.find(parent, tokens) else {
                return;
            };
            matched.push(block);
            parent = self.index.serial(block);
        }
    }

    fn admit_sharing(&mut self, seq: SeqId, prompt: &[u32], shared: &[BlockId], chunk: u32, spare: u32) -> Option<Grant> {
        let cached = shared.len() as u32 * self.config.block_tokens;
        let granted = cached.saturating_add(chunk).min(prompt.len() as u32);
        let whole = self.blocks_for(prompt.len() as u32) - shared.len() as u32;
        if !self.fits(shared, whole, spare) {
            return None;
        }
        shared.iter().for_each(|&block| self.blocks.share(block));
        let new = self.blocks_for(granted) - shared.len() as u32;
        let mut table = Vec::with_capacity(shared.len() + whole as usize);
        table.extend_from_slice(shared);
        table.extend((0..new).map(|_| self.take()));
        let chain = shared.last().map_or(ROOT, |&block| self.index.serial(block));
        self.rows.insert(seq, Row { table: table.clone(), granted, sealed: cached, chain, pinned: None });
        Some(Grant::Admitted { cached, table, copies: Vec::new() })
    }

    /// The whole prompt is cached: share all blocks but the last, copy that, and compute the last token.
    fn admit_copying(&mut self, seq: SeqId, prompt: &[u32], matched: &[BlockId], spare: u32) -> Option<Grant> {
        let (&source, shared) = matched.split_last()?;
        // A block of one token is computed again as cheaply as it is copied.
        if self.config.block_tokens == 1 || !self.fits(matched, 1, spare) {
            return None;
        }
        matched.iter().for_each(|&block| self.blocks.share(block));
        let copy = self.take();
        self.index.copy(source, copy);
        let mut table = shared.to_vec();
        table.push(copy);
        let granted = prompt.len() as u32;
        let row = Row { table: table.clone(), granted, sealed: granted - 1, chain: self.index.parent(source), pinned: Some(source) };
        self.rows.insert(seq, row);
        Some(Grant::Admitted { cached: granted - 1, table, copies: vec![(source, copy)] })
    }

    /// Whether `new` blocks, and `spare` more, are there once the `shared` ones are in use.
    fn fits(&self, shared: &[BlockId], new: u32, spare: u32) -> bool {
        let revived = shared.iter().filter(|&&b| self.blocks.home(b) == Home::Cached).count() as u32;
        new.saturating_add(spare) <= self.blocks.available() - revived
    }
}
