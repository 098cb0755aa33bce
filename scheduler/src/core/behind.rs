//! What lies behind a row's window, where every layer has one, goes back while the row runs.
//!
//! The row's next step starts at the first position not launched yet, and no later one starts before it: so what that step does not
//! read, nobody reads for this row any more. Steps in flight may: the blocks are held for them. Positions must be sealed first, or the
//! prefix index would never hear of them.

use super::Scheduler;
use super::row::Live;
use crate::limits::Limits;
use kv::{BlockId, Want};

impl Limits {
    /// Blocks at the beginning of a row that no step reads which starts at `launched` or later, of those below position `sealed`.
    pub(super) fn behind(&self, launched: u32, sealed: u32) -> u32 {
        self.window().map_or(0, |window| window.reads_from(launched).min(sealed) / self.block_tokens)
    }
}

impl Scheduler {
    /// Has the pool take back what lies behind, a whole block or more at a time.
    pub(super) fn give_up_behind(&mut self) {
        if self.limits.window.is_none() {
            return;
        }
        let oldest = self.flights.front().map(|flight| flight.id);
        for seq in &self.running {
            let Some(live) = self.rows.get_mut(seq).and_then(|row| row.live.as_mut()) else {
                continue;
            };
            let behind = self.limits.behind(live.launched, live.sealed);
            if behind > live.given_up {
                let after = live.last_step.filter(|&step| oldest.is_some_and(|oldest| step >= oldest));
                self.chores.push(Want::Behind { seq: *seq, tokens: behind * self.limits.block_tokens, after });
                live.table[live.given_up as usize..behind as usize].fill(BlockId(0));
                live.given_up = behind;
            }
        }
    }

    /// Blocks that will lie behind once all steps in flight are done.
    pub(super) fn behind_soon(&self) -> u32 {
        let soon = |live: &Live| self.limits.behind(live.launched, live.launched).saturating_sub(live.given_up);
        self.live_rows().map(|(_, live)| soon(live)).sum()
    }
}
