//! What a machine's memory is worth in blocks, and how many rows of a length fit into them.

use crate::budget::BudgetSpec;
use crate::geometry::Geometry;
use crate::window::{Window, blocks_at_once};

/// The sum's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms<'a> {
    pub spec: BudgetSpec,
    /// Bytes that may still be taken once the weights are loaded.
    pub left: u64,
    /// Bytes that a step needs beside weights and pool.
    pub workspace: u64,
    pub geometry: &'a Geometry,
    /// Rows that run at once, and positions that each may have.
    pub batch: u32,
    pub context: u32,
    /// Positions of a row that may be ahead of what is computed: steps in flight × tokens of a chunk.
    pub ahead: u32,
}

/// A pool's size, and what decided it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Usable blocks, at least one.
    pub blocks: u32,
    pub why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Given,
    /// `auto`: [`AUTO_PERCENT`] of what is usable.
    Share,
    /// `auto`, and a full batch at full context needs less than the share.
    FullBatch,
}

/// Why there is no pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    MoreThanUsable { asked: u64, usable: u64 },
    NoBlock { budget: u64 },
}

/// Share of the usable memory that `auto` may take; the rest is for whatever else runs on the machine.
pub const AUTO_PERCENT: u64 = 80;

impl Terms<'_> {
    /// What is left beside the workspace.
    pub fn usable(&self) -> u64 {
        self.left.saturating_sub(self.workspace)
    }

    pub fn window(&self) -> Option<Window> {
        self.geometry.window_with(self.ahead)
    }

    /// Blocks that a row holds at one time at most on its way to so many positions.
    pub fn blocks_at_once(&self, positions: u32) -> u32 {
        blocks_at_once(self.window(), self.geometry.block_tokens(), positions, 0)
    }

    /// Bytes of recurrent state for all rows: they come before the first block.
    pub fn states_bytes(&self) -> u64 {
        self.geometry.state_bytes().saturating_mul(u64::from(self.batch))
    }

    /// Bytes that a pool of so many usable blocks is worth, block 0 and states not counted.
    pub fn pool_bytes(&self, blocks: u32) -> u64 {
        u64::from(blocks) * self.geometry.block_bytes()
    }

    pub fn budget(&self) -> Result<Budget, Unfit> {
        let usable = self.usable();
        let (bytes, why) = match self.spec {
            BudgetSpec::Bytes(asked) if asked > usable => return Err(Unfit::MoreThanUsable { asked, usable }),
            BudgetSpec::Bytes(asked) => (asked, Why::Given),
            BudgetSpec::Auto => {
                let share = (u128::from(usable) * u128::from(AUTO_PERCENT) / 100) as u64;
                // Also what lies behind a window is of use, to whoever begins alike.
                let blocks = u64::from(self.batch) * u64::from(self.context.div_ceil(self.geometry.block_tokens()));
                let full = self.geometry.bytes(blocks, self.batch);
                if share < full { (share, Why::Share) } else { (full, Why::FullBatch) }
            }
        };
        let blocks = self.geometry.blocks(bytes, self.batch);
        if blocks == 0 { Err(Unfit::NoBlock { budget: bytes }) } else { Ok(Budget { blocks, why }) }
    }

    /// Rows of so many positions each that run at once in a pool of `blocks`, and what keeps it from being one more.
    pub fn rows(&self, blocks: u32, positions: u32) -> (u32, Bound) {
        let fit = blocks / self.blocks_at_once(positions).max(1);
        if positions > self.context {
            (0, Bound::Context)
        } else if fit < self.batch {
            (fit, Bound::Budget)
        } else {
            (self.batch, Bound::Batch)
        }
    }
}

/// What bounds the number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Budget,
    Batch,
    /// A row may not be that long.
    Context,
}

impl Bound {
    pub fn name(self) -> &'static str {
        match self {
            Bound::Budget => "budget",
            Bound::Batch => "batch",
            Bound::Context => "context",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Elements, Layer, Span};

    /// Blocks of 1024 bytes and 32 tokens; states of so many bytes.
    fn geometry(span: Span, state_bytes: u64) -> Geometry {
        let layer = Layer { span, kv_heads: 1, head_dim: 4, elements: Elements::Dense { bytes: 4 } };
        Geometry::new(vec![layer], 32).unwrap().with_state(state_bytes)
    }

    fn terms(geometry: &Geometry, spec: BudgetSpec, left: u64, workspace: u64) -> Terms<'_> {
        Terms { spec, left, workspace, geometry, batch: 4, context: 320, ahead: 64 }
    }

    #[test]
    fn a_budget_is_what_is_asked_for_or_a_share_or_enough() {
        let (auto, bytes) = (BudgetSpec::Auto, BudgetSpec::Bytes);
        let (plain, hybrid) = (geometry(Span::Full, 0), geometry(Span::Full, 500));
        let full = 41 * 1024;
        let rows = [
            (terms(&plain, auto, 1_000_000, 0), Ok((40, Why::FullBatch))),
            (terms(&plain, auto, full * 5 / 4, 0), Ok((40, Why::FullBatch))),
            (terms(&plain, auto, full * 5 / 4 - 1, 0), Ok((39, Why::Share))),
            (terms(&plain, auto, 31_000, 10_000), Ok((15, Why::Share))),
            (terms(&plain, auto, 12_559, 10_000), Err(Unfit::NoBlock { budget: 2047 })),
            (terms(&plain, auto, 10, 10_000), Err(Unfit::NoBlock { budget: 0 })),
            (terms(&plain, auto, u64::MAX, 0), Ok((40, Why::FullBatch))),
            (terms(&plain, bytes(8 * 1024 - 1), 10_000, 1_000), Ok((6, Why::Given))),
            (terms(&plain, bytes(9_000), 10_000, 1_000), Ok((7, Why::Given))),
            (terms(&plain, bytes(9_001), 10_000, 1_000), Err(Unfit::MoreThanUsable { asked: 9_001, usable: 9_000 })),
            (terms(&plain, bytes(2047), 10_000, 1_000), Err(Unfit::NoBlock { budget: 2047 })),
            (terms(&plain, bytes(u64::MAX), u64::MAX, 0), Ok((u32::MAX / 128, Why::Given))),
            // Four states come first.
            (terms(&hybrid, auto, 1_000_000, 0), Ok((40, Why::FullBatch))),
            (terms(&hybrid, auto, (full + 2000) * 5 / 4 - 1, 0), Ok((39, Why::Share))),
            (terms(&hybrid, bytes(2000 + 2048), 10_000, 0), Ok((1, Why::Given))),
            (terms(&hybrid, bytes(2000 + 2047), 10_000, 0), Err(Unfit::NoBlock { budget: 4047 })),
        ];
        for (terms, expect) in rows {
            let expect = expect.map(|(blocks, why)| Budget { blocks, why });
            assert_eq!(terms.budget(), expect, "{terms:?}");
        }
    }

    #[test]
    fn the_terms_of_the_sum() {
        let hybrid = geometry(Span::Full, 500);
        let terms = terms(&hybrid, BudgetSpec::Auto, 31_000, 10_000);
        assert_eq!((terms.usable(), terms.states_bytes(), terms.pool_bytes(3)), (21_000, 2_000, 3 * 1024));
        assert_eq!([Bound::Budget, Bound::Batch, Bound::Context].map(Bound::name), ["budget", "batch", "context"]);
    }

    #[test]
    fn rows_are_bounded_by_budget_batch_or_context() {
        let (plain, windowed) = (geometry(Span::Full, 0), geometry(Span::Window(64), 0));
        let rows = [
            (&plain, 40, 320, 4, Bound::Batch),
            (&plain, 39, 320, 3, Bound::Budget),
            (&plain, 39, 289, 3, Bound::Budget),
            (&plain, 39, 288, 4, Bound::Batch),
            (&plain, 9, 320, 0, Bound::Budget),
            (&plain, 3, 1, 3, Bound::Budget),
            (&plain, 4, 32, 4, Bound::Batch),
            (&plain, 1000, 321, 0, Bound::Context),
            (&plain, 0, 1, 0, Bound::Budget),
            // 64 positions of a window and 64 ahead are 4 blocks, and 2 more.
            (&windowed, 24, 320, 4, Bound::Batch),
            (&windowed, 23, 320, 3, Bound::Budget),
            (&windowed, 6, 320, 1, Bound::Budget),
            (&windowed, 5, 320, 0, Bound::Budget),
            (&windowed, 5, 160, 1, Bound::Budget),
            (&windowed, 1000, 321, 0, Bound::Context),
        ];
        for (geometry, blocks, positions, count, bound) in rows {
            let terms = terms(geometry, BudgetSpec::Auto, 0, 0);
            assert_eq!(terms.rows(blocks, positions), (count, bound), "{blocks} blocks, {positions} positions of {geometry:?}");
        }
    }
}
