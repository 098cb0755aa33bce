//! What the scheduler asks of the pool in one turn, and what it gets: in order, whole or not at all (K5).

use crate::step::{BlockId, SeqId, StepId};
use crate::window::Window;
use smallvec::SmallVec;
use std::sync::Arc;

/// Ids that a step computed for one row. A row that decodes has one, which needs no allocation.
pub type Ids = SmallVec<[u32; 4]>;

/// Blocks that a table grows by. A row that decodes gets one, which needs no allocation.
pub type NewBlocks = SmallVec<[BlockId; 4]>;

/// One wish. Releases come first in a list, then growth (oldest row first), then admissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// Give back every block of `seq`. Blocks named by steps up to `after` are held until that step is done.
    Release { seq: SeqId, after: Option<StepId> },
    /// `tokens` are the ids at the next computed positions of `seq` (their K and V are written): full blocks enter the prefix index.
    Seal { seq: SeqId, tokens: Ids },
    /// Positions of `seq` below `tokens`, all of them sealed, are read by no step after `after`: the whole blocks below go back, held
    /// until that step is done, and [`BlockId`] 0 stands for them in the row's table.
    Behind { seq: SeqId, tokens: u32, after: Option<StepId> },
    /// Room for `tokens` tokens in total.
    Grow { seq: SeqId, tokens: u32 },
    /// A new row: share the longest cached prefix of `prompt` (never all of it) and reserve room for `chunk` more tokens, or for
    /// all if fewer. Granted only if the whole prompt would fit now with `spare` blocks left over, so that rows which run already
    /// can grow without preempting this one at once. With a `window`, blocks of the prefix that lie behind it are not taken, and the
    /// prompt would fit if as many blocks are there as it holds at one time.
    Admit { seq: SeqId, prompt: Arc<[u32]>, chunk: u32, spare: u32, window: Option<Window> },
    /// What was sealed for `seq` is not to be reused (its numbers went bad): its blocks leave the prefix index. A row that was
    /// released since has left them to whoever begins alike: then those that hold a beginning of its `tokens` leave.
    Forget { seq: SeqId, tokens: Ids },
    /// Steps up to this one are done: what was held for them is free.
    Done { step: StepId },
    /// Prefixes that no row holds are forgotten: their blocks are free.
    Flush,
    /// The model is gone: every block is void and free.
    Void,
}

/// A turn's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wants {
    pub turn: u64,
    pub list: Vec<Want>,
    /// Memory for the answer's grants: that of an earlier answer, so that a turn need not allocate.
    pub room: Vec<Grant>,
}

impl Wants {
    pub fn new(turn: u64, list: Vec<Want>) -> Wants {
        Wants { turn, list, room: Vec::new() }
    }
}

/// The answer to a [`Want::Grow`] or a [`Want::Admit`]; the others are never refused, and need none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// Blocks to append to the row's table.
    Grown { new: NewBlocks },
    /// The row's table; its first `cached` tokens are there already, once the copy `(from, to)`, if any, is made. Block 0 stands for
    /// what lies behind the row's window.
    Admitted { cached: u32, table: Vec<BlockId>, copy: Option<(BlockId, BlockId)> },
}

/// Grants for the list's first `grants.len()` growths and admissions; the next one, if any, fell short and nothing after it was looked
/// at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    pub turn: u64,
    pub grants: Vec<Grant>,
    pub ledger: Ledger,
    /// Memory for a list to come: that of the list which this answers.
    pub room: Vec<Want>,
}

/// Blocks by holder; the four add up to the total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ledger {
    pub block_bytes: u64,
    pub total: u32,
    /// In some live row's table (shared ones counted once).
    pub rows: u32,
    /// Cached prefixes that no live row uses: reusable, evictable.
    pub prefix: u32,
    /// Released, but a step in flight may still write them.
    pub held: u32,
    pub free: u32,
}
