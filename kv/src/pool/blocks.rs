//! Reference counts, and where each unreferenced block waits: free, cached or held. Every operation is O(1) and allocates
//! nothing: the lists are threaded through one array, and index 0, which no block has, ends them.

use super::index::Index;
use crate::step::{BlockId, StepId};

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// Referenced by a table, or pinned as the source of a copy.
    Rows,
    Free,
    /// In the prefix index, unreferenced: reusable and evictable.
    Cached,
    /// Unreferenced, but a step in flight names it.
    Held,
}

#[derive(Debug, Clone)]
struct Meta {
    refs: u32,
    home: Home,
    prev: u32,
    next: u32,
    /// A step up to this one may still touch the block.
    held_until: StepId,
}

#[derive(Debug, Clone, Copy, Default)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

/// All blocks of the pool.
#[derive(Debug)]
pub(crate) struct Blocks {
    meta: Vec<Meta>,
    free: List,
    /// Least recently used first.
    cached: List,
    /// In the order of release.
    held: List,
    /// Steps up to this one are done.
    done: StepId,
}

impl Blocks {
    pub(crate) fn new(blocks: u32) -> Blocks {
        let none = Meta { refs: 0, home: Home::Rows, prev: 0, next: 0, held_until: StepId(0) };
        let mut this = Blocks { meta: vec![none; blocks as usize + 1], free: List::default(), cached: List::default(), held: List::default(), done: StepId(0) };
        for block in 1..=blocks {
            this.push_back(block, Home::Free);
        }
        this
    }

    pub(crate) fn total(&self) -> u32 {
        self.meta.len() as u32 - 1
    }

    pub(crate) fn len(&self, home: Home) -> u32 {
        match home {
            Home::Rows => self.total() - self.free.len - self.cached.len - self.held.len,
            Home::Free | Home::Cached | Home::Held => self.list(home).len,
        }
    }

    /// Blocks that could be handed out now.
    pub(crate) fn available(&self) -> u32 {
        self.free.len + self.cached.len
    }

    pub(crate) fn refs(&self, block: BlockId) -> u32 {
        self.meta[block.0 as usize].refs
    }

    pub(crate) fn home(&self, block: BlockId) -> Home {
        self.meta[block.0 as usize].home
    }

    /// A free block, now with one reference.
    pub(crate) fn take_free(&mut self) -> Option<BlockId> {
        self.take_head(Home::Free)
    }

    /// The least recently used cached block, now with one reference. The caller takes it out of the index.
    pub(crate) fn take_cached(&mut self) -> Option<BlockId> {
        self.take_head(Home::Cached)
    }

    fn take_head(&mut self, home: Home) -> Option<BlockId> {
        let head = self.list(home).head;
        (head != 0).then(|| {
            self.unlink(head);
            self.meta[head as usize].refs = 1;
            BlockId(head)
        })
    }

    /// One more reference; a cached or held block comes back to life.
    pub(crate) fn share(&mut self, block: BlockId) {
        if self.home(block) != Home::Rows {
            self.unlink(block.0);
        }
        self.meta[block.0 as usize].refs += 1;
    }

    /// One reference less. The last one sends the block to where it belongs: held while a step up to `after` (or one that an
    /// earlier holder named) is not done, else cached if `indexed`, else free.
    pub(crate) fn drop_ref(&mut self, block: BlockId, after: Option<StepId>, indexed: bool) {
        let done = self.done;
        let meta = &mut self.meta[block.0 as usize];
        assert!(meta.refs > 0, "{block:?} has no reference to drop");
        meta.refs -= 1;
        meta.held_until = meta.held_until.max(after.unwrap_or(StepId(0)));
        if meta.refs == 0 {
            let held = meta.held_until > done;
            self.settle_down(block.0, held, indexed);
        }
    }

    /// The source of a copy is not needed any more.
    pub(super) fn unpin(&mut self, pinned: Option<BlockId>, after: Option<StepId>, index: &Index) {
        if let Some(block) = pinned {
            self.drop_ref(block, after, index.contains(block));
        }
    }

    /// A cached block was of use: it is evicted after those that were not.
    pub(crate) fn touch(&mut self, block: BlockId) {
        if self.home(block) == Home::Cached {
            self.unlink(block.0);
            self.push_back(block.0, Home::Cached);
        }
    }

    /// An unreferenced block left the index: if it was cached, it is free.
    pub(crate) fn unindexed(&mut self, block: BlockId) {
        if self.home(block) == Home::Cached {
            self.unlink(block.0);
            self.push_front(block.0, Home::Free);
        }
    }

    /// Steps up to `step` are done: what they held goes on, in the order of release, so that tails stay before heads.
    pub(crate) fn step_done(&mut self, step: StepId, indexed: impl Fn(BlockId) -> bool) {
        self.done = self.done.max(step);
        let mut at = self.held.head;
        while at != 0 {
            let next = self.meta[at as usize].next;
            if self.meta[at as usize].held_until <= self.done {
                self.unlink(at);
                self.settle_down(at, false, indexed(BlockId(at)));
            }
            at = next;
        }
    }

    fn settle_down(&mut self, block: u32, held: bool, indexed: bool) {
        if held {
            self.push_back(block, Home::Held);
        } else if indexed {
            self.push_back(block, Home::Cached);
        } else {
            // Most recently used first: its memory may still be warm.
            self.push_front(block, Home::Free);
        }
    }

    /// The blocks of a list, first to last.
    pub(crate) fn walk(&self, home: Home) -> impl Iterator<Item = BlockId> {
        self.follow(self.list(home).head, |meta| meta.next)
    }

    /// The same, last to first.
    pub(crate) fn walk_back(&self, home: Home) -> impl Iterator<Item = BlockId> {
        self.follow(self.list(home).tail, |meta| meta.prev)
    }

    fn follow(&self, mut at: u32, link: impl Fn(&Meta) -> u32) -> impl Iterator<Item = BlockId> {
        std::iter::from_fn(move || {
            let block = BlockId(at);
            (at != 0).then(|| {
                at = link(&self.meta[at as usize]);
                block
            })
        })
    }

    fn list(&self, home: Home) -> &List {
        match home {
            Home::Free => &self.free,
            Home::Cached => &self.cached,
            Home::Held => &self.held,
            Home::Rows => unreachable!("blocks of rows are in no list"),
        }
    }

    fn list_mut(&mut self, home: Home) -> &mut List {
        match home {
            Home::Free => &mut self.free,
            Home::Cached => &mut self.cached,
            Home::Held => &mut self.held,
            Home::Rows => unreachable!("blocks of rows are in no list"),
        }
    }

    fn push_back(&mut self, block: u32, home: Home) {
        let list = self.list_mut(home);
        let prev = std::mem::replace(&mut list.tail, block);
        list.len += 1;
        if prev == 0 {
            list.head = block;
        } else {
            self.meta[prev as usize].next = block;
        }
        let meta = &mut self.meta[block as usize];
        (meta.prev, meta.next, meta.home) = (prev, 0, home);
    }

    fn push_front(&mut self, block: u32, home: Home) {
        let list = self.list_mut(home);
        let next = std::mem::replace(&mut list.head, block);
        list.len += 1;
        if next == 0 {
            list.tail = block;
        } else {
            self.meta[next as usize].prev = block;
        }
        let meta = &mut self.meta[block as usize];
        (meta.prev, meta.next, meta.home) = (0, next, home);
    }

    fn unlink(&mut self, block: u32) {
        let Meta { prev, next, home, .. } = self.meta[block as usize];
        let list = self.list_mut(home);
        list.len -= 1;
        if prev == 0 {
            list.head = next;
        }
        if next == 0 {
            list.tail = prev;
        }
        if prev != 0 {
            self.meta[prev as usize].next = next;
        }
        if next != 0 {
            self.meta[next as usize].prev = prev;
        }
        self.meta[block as usize].home = Home::Rows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::Invariant::{self, K1, K2, K3};
    use crate::pool::{Pool, PoolConfig};
    use crate::settle::{Want, Wants};
    use crate::step::SeqId;

    type Damage = fn(&mut Blocks);

    #[test]
    fn damage_to_lists_and_counts_is_noticed() {
        // Block 1 is a row's, or free like 2, 3 and 4.
        let rows: &[(&str, bool, Damage, Option<Invariant>)] = &[
            ("none", true, |_| {}, None),
            ("none", false, |_| {}, None),
            ("a list that never ends", false, |blocks| blocks.meta[4].next = 1, Some(K1)),
            ("a block that another one does not lead back to", true, |blocks| blocks.meta[3].prev = 0, Some(K1)),
            ("a last block that is not the last", true, |blocks| blocks.free.tail = 3, Some(K1)),
            ("a list that is counted short", true, |blocks| blocks.free.len -= 1, Some(K1)),
            (
                "a free block that is in no list",
                true,
                |blocks| {
                    blocks.unlink(3);
                    blocks.meta[3].home = Home::Free;
                },
                Some(K1),
            ),
            ("a block in the wrong list", true, |blocks| blocks.meta[3].home = Home::Cached, Some(K2)),
            ("a block that is nobody's", true, |blocks| blocks.unlink(3), Some(K2)),
            ("a row's block that is free", true, |blocks| blocks.push_back(1, Home::Free), Some(K2)),
            ("a reference too many", true, |blocks| blocks.meta[1].refs = 2, Some(K3)),
            ("a reference to a free block", true, |blocks| blocks.meta[2].refs = 1, Some(K3)),
        ];
        for (what, admitted, damage, violated) in rows {
            let mut pool = Pool::new(PoolConfig { blocks: 4, block_tokens: 4, block_bytes: 10, prefix_cache: true });
            if *admitted {
                let admit = Want::Admit { seq: SeqId(1), prompt: [5].into(), chunk: 1, spare: 0, window: None };
                pool.settle(Wants::new(1, vec![admit]));
            }
            damage(&mut pool.blocks);
            assert_eq!(pool.check().err().map(|violation| violation.invariant), *violated, "{what}");
        }
    }
}
