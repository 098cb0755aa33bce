//! The prefix index: which cached block continues which chain of tokens.
//!
//! An entry is a full block's tokens after a parent entry, so the index is a tree of blocks, kept in one hash table. Entries
//! are numbered and never reuse a number: a chain is compared by its parent's number and its own tokens, in full, and a
//! collision of hashes costs a comparison but never gives one row another row's memory (K4).

use crate::step::BlockId;

/// The number of an entry; [`ROOT`] stands for the empty prefix.
pub(crate) type Serial = u64;

pub(crate) const ROOT: Serial = 0;

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// 0: the block is not in the index.
    serial: Serial,
    parent: Serial,
    /// The next block in the same bucket; 0 ends it.
    next: u32,
}

/// A hash of `tokens` after what `seed` stands for, such as the hash of those before them: multiply and fold, so that it depends on every
/// bit of both. Spread matters here, secrecy does not.
pub fn fold(seed: u64, tokens: &[u32]) -> u64 {
    tokens.iter().fold(seed, |h, &token| {
        let wide = u128::from(h ^ u64::from(token)) * 0xd6e8_feb8_6659_fd93_u128;
        (wide as u64) ^ ((wide >> 64) as u64) ^ 0x2545_f491_4f6c_dd1d
    })
}

#[derive(Debug)]
pub(crate) struct Index {
    block_tokens: usize,
    /// Token ids whose K and V the blocks hold, `block_tokens` a block; those of a block not yet full are here too.
    tokens: Vec<u32>,
    /// By block.
    entries: Vec<Entry>,
    /// A power of two of them.
    buckets: Vec<u32>,
    last: Serial,
}

impl Index {
    pub(crate) fn new(blocks: u32, block_tokens: u32) -> Index {
        let slots = blocks as usize + 1;
        Index {
            block_tokens: block_tokens as usize,
            tokens: vec![0; slots * block_tokens as usize],
            entries: vec![Entry::default(); slots],
            buckets: vec![0; slots.next_power_of_two()],
            last: ROOT,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.fill(Entry::default());
        self.buckets.fill(0);
    }

    pub(crate) fn tokens(&self, block: BlockId) -> &[u32] {
        let at = block.0 as usize * self.block_tokens;
        &self.tokens[at..at + self.block_tokens]
    }

    /// Notes that `block` holds `token` at `offset`.
    pub(crate) fn write(&mut self, block: BlockId, offset: usize, token: u32) {
        self.tokens[block.0 as usize * self.block_tokens + offset] = token;
    }

    /// Notes that `to` is a copy of `from`.
    pub(crate) fn copy(&mut self, from: BlockId, to: BlockId) {
        let at = from.0 as usize * self.block_tokens;
        let to = to.0 as usize * self.block_tokens;
        self.tokens.copy_within(at..at + self.block_tokens, to);
    }

    pub(crate) fn contains(&self, block: BlockId) -> bool {
        self.entries[block.0 as usize].serial != 0
    }

    pub(crate) fn serial(&self, block: BlockId) -> Serial {
        self.entries[block.0 as usize].serial
    }

    pub(crate) fn parent(&self, block: BlockId) -> Serial {
        self.entries[block.0 as usize].parent
    }

    /// The block that holds `tokens` after `parent`.
    pub(crate) fn find(&self, parent: Serial, tokens: &[u32]) -> Option<BlockId> {
        let mut at = self.buckets[self.bucket(parent, tokens)];
        while at != 0 {
            let entry = &self.entries[at as usize];
            if entry.parent == parent && self.tokens(BlockId(at)) == tokens {
                return Some(BlockId(at));
            }
            at = entry.next;
        }
        None
    }

    /// Enters `block`, whose tokens are written and not found after `parent` yet.
    pub(crate) fn insert(&mut self, block: BlockId, parent: Serial) -> Serial {
        self.last += 1;
        self.link(block, self.last, parent);
        self.last
    }

    /// `to` takes the place of `from`, which holds the same tokens: whatever continues `from` continues `to`.
    pub(crate) fn hand_over(&mut self, from: BlockId, to: BlockId) {
        let Entry { serial, parent, .. } = self.entries[from.0 as usize];
        self.remove(from);
        self.link(to, serial, parent);
    }

    pub(crate) fn remove(&mut self, block: BlockId) {
        let Entry { serial, parent, next } = self.entries[block.0 as usize];
        if serial == 0 {
            return;
        }
        let bucket = self.bucket(parent, self.tokens(block));
        let mut at = self.buckets[bucket];
        if at == block.0 {
            self.buckets[bucket] = next;
        } else {
            while self.entries[at as usize].next != block.0 {
                at = self.entries[at as usize].next;
                assert!(at != 0, "{block:?} is not in its bucket");
            }
            self.entries[at as usize].next = next;
        }
        self.entries[block.0 as usize] = Entry::default();
    }

    fn link(&mut self, block: BlockId, serial: Serial, parent: Serial) {
        let bucket = self.bucket(parent, self.tokens(block));
        let next = std::mem::replace(&mut self.buckets[bucket], block.0);
        self.entries[block.0 as usize] = Entry { serial, parent, next };
    }

    fn bucket(&self, parent: Serial, tokens: &[u32]) -> usize {
        let h = fold(parent ^ 0x9e37_79b9_7f4a_7c15, tokens);
        (h ^ (h >> 32)) as usize & (self.buckets.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: u32 = 1023;

    /// Blocks in the fullest bucket, when each block holds these tokens after this parent.
    fn fullest(entry: impl Fn(u32) -> (Serial, [u32; 2])) -> usize {
        let mut index = Index::new(BLOCKS, 2);
        for block in 1..=BLOCKS {
            let (parent, tokens) = entry(block);
            (0..).zip(tokens).for_each(|(offset, token)| index.write(BlockId(block), offset, token));
            index.insert(BlockId(block), parent);
        }
        let follow = |&head: &u32| std::iter::successors(Some(head).filter(|&at| at != 0), |&at| Some(index.entries[at as usize].next).filter(|&at| at != 0));
        index.buckets.iter().map(|head| follow(head).count()).max().unwrap_or(0)
    }

    #[test]
    fn entries_spread_over_the_buckets() {
        let rows: [(&str, usize); 5] = [
            ("by parent", fullest(|n| (n.into(), [7, 7]))),
            ("by first token", fullest(|n| (ROOT, [n, 7]))),
            ("by last token", fullest(|n| (ROOT, [7, n]))),
            ("by both tokens", fullest(|n| (ROOT, [n / 32, n % 32]))),
            ("by high bits", fullest(|n| (ROOT, [7, n << 20]))),
        ];
        for (what, most) in rows {
            // There are about as many buckets as entries.
            assert!(most <= 8, "{what}: {most}");
        }
    }
}
