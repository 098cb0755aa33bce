//! What a machine's memory is worth in blocks, and how many rows of a length fit into them.

use crate::budget::BudgetSpec;

/// The sum's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub spec: BudgetSpec,
    /// Bytes that may still be taken once the weights are loaded.
    pub left: u64,
    /// Bytes that a step needs beside weights and pool.
    pub workspace: u64,
    pub block_bytes: u64,
    pub block_tokens: u32,
    /// Rows that run at once, and positions that each may have.
    pub batch: u32,
    pub context: u32,
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

impl Terms {
    /// What is left beside the workspace.
    pub fn usable(&self) -> u64 {
        self.left.saturating_sub(self.workspace)
    }

    /// Blocks that a row of so many positions takes.
    pub fn blocks_for(&self, positions: u32) -> u32 {
        positions.div_ceil(self.block_tokens)
    }

    pub fn budget(&self) -> Result<Budget, Unfit> {
        let usable = self.usable();
        let (bytes, why) = match self.spec {
            BudgetSpec::Bytes(asked) if asked > usable => return Err(Unfit::MoreThanUsable { asked, usable }),
            BudgetSpec::Bytes(asked) => (asked, Why::Given),
            BudgetSpec::Auto => {
                let share = (u128::from(usable) * u128::from(AUTO_PERCENT) / 100) as u64;
                let full = (u64::from(self.batch) * u64::from(self.blocks_for(self.context))).saturating_mul(self.block_bytes);
                if share < full { (share, Why::Share) } else { (full, Why::FullBatch) }
            }
        };
        // Positions of all blocks, and some arithmetic on them, must fit 32 bits.
        let most = u64::from(u32::MAX / self.block_tokens / 4);
        let blocks = (bytes / self.block_bytes).min(most) as u32;
        if blocks == 0 { Err(Unfit::NoBlock { budget: bytes }) } else { Ok(Budget { blocks, why }) }
    }

    /// Rows of so many positions each that run at once in a pool of `blocks`, and what keeps it from being one more.
    pub fn rows(&self, blocks: u32, positions: u32) -> (u32, Bound) {
        let fit = blocks / self.blocks_for(positions).max(1);
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

    /// Blocks of 1000 bytes and 32 tokens.
    fn terms(spec: BudgetSpec, left: u64, workspace: u64) -> Terms {
        Terms { spec, left, workspace, block_bytes: 1000, block_tokens: 32, batch: 4, context: 320 }
    }

    #[test]
    fn a_budget_is_what_is_asked_for_or_a_share_or_enough() {
        let auto = BudgetSpec::Auto;
        let rows = [
            (terms(auto, 1_000_000, 0), Ok((40, Why::FullBatch))),
            (terms(auto, 50_000, 0), Ok((40, Why::FullBatch))),
            (terms(auto, 49_999, 0), Ok((39, Why::Share))),
            (terms(auto, 30_000, 10_000), Ok((16, Why::Share))),
            (terms(auto, 11_249, 10_000), Err(Unfit::NoBlock { budget: 999 })),
            (terms(auto, 10, 10_000), Err(Unfit::NoBlock { budget: 0 })),
            (terms(auto, u64::MAX, 0), Ok((40, Why::FullBatch))),
            (terms(BudgetSpec::Bytes(7_999), 10_000, 1_000), Ok((7, Why::Given))),
            (terms(BudgetSpec::Bytes(9_000), 10_000, 1_000), Ok((9, Why::Given))),
            (terms(BudgetSpec::Bytes(9_001), 10_000, 1_000), Err(Unfit::MoreThanUsable { asked: 9_001, usable: 9_000 })),
            (terms(BudgetSpec::Bytes(999), 10_000, 1_000), Err(Unfit::NoBlock { budget: 999 })),
            (Terms { block_bytes: 1, ..terms(BudgetSpec::Bytes(u64::MAX), u64::MAX, 0) }, Ok((u32::MAX / 128, Why::Given))),
        ];
        for (terms, expect) in rows {
            let expect = expect.map(|(blocks, why)| Budget { blocks, why });
            assert_eq!(terms.budget(), expect, "{terms:?}");
        }
    }

    #[test]
    fn rows_are_bounded_by_budget_batch_or_context() {
        let terms = terms(BudgetSpec::Auto, 0, 0);
        let rows = [
            (40, 320, 4, Bound::Batch),
            (39, 320, 3, Bound::Budget),
            (39, 289, 3, Bound::Budget),
            (39, 288, 4, Bound::Batch),
            (9, 320, 0, Bound::Budget),
            (3, 1, 3, Bound::Budget),
            (4, 32, 4, Bound::Batch),
            (1000, 321, 0, Bound::Context),
            (0, 1, 0, Bound::Budget),
        ];
        for (blocks, positions, count, bound) in rows {
            assert_eq!(terms.rows(blocks, positions), (count, bound), "{blocks} blocks, {positions} positions");
        }
    }
}
