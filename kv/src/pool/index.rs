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
    /// Where the entry is, so that it is found again without a look at its tokens.
    bucket: u32,
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
    /// A power of two of them, twice the blocks or more: looking further costs more than their memory.
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
            buckets: vec![0; 2 * slots.next_power_of_two()],
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

    /// Notes that `block` holds `tokens` from `offset` on.
    pub(crate) fn write(&mut self, block: BlockId, offset: usize, tokens: &[u32]) {
        let at = block.0 as usize * self.block_tokens + offset;
        match tokens {
            // A row that decodes has one, which is no work for a call of memcpy.
            [token] => self.tokens[at] = *token,
            tokens => self.tokens[at..at + tokens.len()].copy_from_slice(tokens),
        }
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
        self.find_in(self.bucket(parent, tokens), parent, tokens)
    }

    fn find_in(&self, bucket: u32, parent: Serial, tokens: &[u32]) -> Option<BlockId> {
        let mut at = self.buckets[bucket as usize];
        while at != 0 {
            let entry = &self.entries[at as usize];
            if entry.parent == parent && self.tokens(BlockId(at)) == tokens {
                return Some(BlockId(at));
            }
            at = entry.next;
        }
        None
    }

    /// Enters `block`, whose tokens are written, and gives its entry; or the block that holds these tokens after `parent` already.
    pub(crate) fn enter(&mut self, block: BlockId, parent: Serial) -> Result<Serial, BlockId> {
        let bucket = self.bucket(parent, self.tokens(block));
        match self.find_in(bucket, parent, self.tokens(block)) {
            Some(twin) => Err(twin),
            None => Ok(self.insert(block, parent, bucket)),
        }
    }

    pub(super) fn insert(&mut self, block: BlockId, parent: Serial, bucket: u32) -> Serial {
        self.last += 1;
        self.link(block, self.last, parent, bucket);
        self.last
    }

    /// `to` takes the place of `from`, which holds the same tokens: whatever continues `from` continues `to`.
    pub(crate) fn hand_over(&mut self, from: BlockId, to: BlockId) {
        let Entry { serial, parent, bucket, .. } = self.entries[from.0 as usize];
        self.remove(from);
        self.link(to, serial, parent, bucket);
    }

    pub(crate) fn remove(&mut self, block: BlockId) {
        let Entry { serial, next, bucket, .. } = self.entries[block.0 as usize];
        if serial == 0 {
            return;
        }
        let mut at = self.buckets[bucket as usize];
        if at == block.0 {
            self.buckets[bucket as usize] = next;
        } else {
            while self.entries[at as usize].next != block.0 {
                at = self.entries[at as usize].next;
                assert!(at != 0, "{block:?} is not in its bucket");
            }
            self.entries[at as usize].next = next;
        }
        self.entries[block.0 as usize] = Entry::default();
    }

    fn link(&mut self, block: BlockId, serial: Serial, parent: Serial, bucket: u32) {
        let next = std::mem::replace(&mut self.buckets[bucket as usize], block.0);
        self.entries[block.0 as usize] = Entry { serial, parent, next, bucket };
    }

    pub(super) fn bucket(&self, parent: Serial, tokens: &[u32]) -> u32 {
        let h = fold(parent ^ 0x9e37_79b9_7f4a_7c15, tokens);
        (h ^ (h >> 32)) as u32 & (self.buckets.len() - 1) as u32
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
            index.write(BlockId(block), 0, &tokens);
            index.enter(BlockId(block), parent).unwrap();
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
            // There are twice as many buckets as entries.
            assert!(most <= 8, "{what}: {most}");
        }
    }
}
