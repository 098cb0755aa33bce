//! The device: blocks of hashes, and steps that read and write them in the order of launching.
//!
//! Stricter than the synthetic engine: it looks at every position that a row reads, not only at the token drawn, and at blocks
//! that a step in flight still names.

use super::clients::Client;
use super::shape::Shape;
use kv::invariants::Invariant::{K4, K6, S1, S4, S6};
use kv::invariants::ensure;
use kv::{BlockId, Input, RowFault, RowResult, SeqId, Step, StepDone, Violation};
use models::synthetic;
use std::collections::{BTreeMap, VecDeque};

pub(crate) struct Device {
    shape: Shape,
    block_tokens: u32,
    /// What each slot of each block holds.
    slots: Vec<u64>,
    /// Steps launched and not finished, with their results.
    flights: VecDeque<(Step, StepDone)>,
    /// Tokens drawn by the step launched last.
    previous: BTreeMap<SeqId, u32>,
    losses: u64,
}

impl Device {
    pub(crate) fn new(shape: Shape) -> Device {
        let block_tokens = shape.pool.block_tokens;
        let slots = vec![0; (shape.pool.blocks as usize + 1) * block_tokens as usize];
        Device { shape, block_tokens, slots, flights: VecDeque::new(), previous: BTreeMap::new(), losses: 0 }
    }

    /// A new worker: nothing is left of the old one.
    pub(crate) fn lose(&mut self) {
        self.losses += 1;
        self.slots.fill(!self.losses);
        self.flights.clear();
        self.previous.clear();
    }

    /// Which worker this is: results of an earlier one never arrive.
    pub(crate) fn life(&self) -> u64 {
        self.losses
    }

    /// The oldest step's results.
    pub(crate) fn finish(&mut self) -> Option<StepDone> {
        self.flights.pop_front().map(|(_, done)| done)
    }

    /// Runs a step. Every position of every row must find the K and V of its own prefix (K4), as far back as the model's window
    /// reaches; block 0 may only stand for what lies behind it (K6); and no block that a step in flight names may be written for
    /// anybody else (S6).
    pub(crate) fn launch(&mut self, step: Step, clients: &BTreeMap<SeqId, Client>) -> Result<(), Violation> {
        ensure(S1, self.flights.len() < 2, || "a third step is launched".into())?;
        for &(from, to) in &step.copies {
            self.may_write(to, None)?;
            let size = self.block_tokens as usize;
            let at = from.0 as usize * size;
            self.slots.copy_within(at..at + size, to.0 as usize * size);
        }
        let mut results = Vec::new();
        let mut drawn = BTreeMap::new();
        for row in &step.rows {
            let Some(Client { run, fault_at, .. }) = clients.get(&row.seq) else {
                return Err(Violation::new(S1, format!("{:?} was never taken", row.seq)));
            };
            let count = row.input.count();
            let need = (row.start + count).div_ceil(self.block_tokens);
            ensure(K4, row.table.len() as u32 == need, || format!("{:?}: table of another length", row.seq))?;
            let read_from = self.shape.limits.window.map_or(0, |window| (row.start + 1).saturating_sub(window));
            let (behind, held) = row.table.split_at((read_from / self.block_tokens) as usize);
            ensure(K6, held.iter().all(|b| b.0 != 0), || format!("{:?} uses block 0", row.seq))?;
            let taken = row.table.len() - behind.iter().filter(|b| b.0 == 0).count();
            let most = self.shape.limits.blocks_at_once(row.start + count, 0);
            ensure(S4, taken as u32 <= most, || format!("{:?} has {taken} blocks of {most}", row.seq))?;
            for position in read_from..row.start {
                let (expected, found) = (run.hashes.get(position as usize), self.slots[self.slot(&row.table, position)]);
                ensure(K4, expected == Some(&found), || format!("{:?} reads a wrong K and V at {position}", row.seq))?;
            }
            let own;
            let tokens: &[u32] = match &row.input {
                Input::Tokens(tokens) => tokens,
                Input::FromPrevious => {
                    let token = self.previous.get(&row.seq).copied();
                    ensure(S1, token.is_some(), || format!("{:?}: nothing drawn before", row.seq))?;
                    own = token.unwrap_or(0);
                    std::slice::from_ref(&own)
                }
            };
            let mut hash = row.start.checked_sub(1).map_or(synthetic::EMPTY, |p| run.hashes[p as usize]);
            for (position, &token) in (row.start..).zip(tokens) {
                hash = synthetic::extend(hash, position, token);
                let index = position / self.block_tokens;
                self.may_write(row.table[index as usize], Some((row.seq, index)))?;
                let slot = self.slot(&row.table, position);
                self.slots[slot] = hash;
            }
            if let Some(draw) = &row.draw {
                let bad = fault_at.is_some_and(|at| draw.index >= at);
                let token = synthetic::after(hash, draw, self.shape.vocab).ok_or(RowFault::NotFinite);
                // What a bad row computes next is dropped, but the device computes it from something.
                drawn.insert(row.seq, token.clone().unwrap_or(0));
                results.push(RowResult::new(row.seq, if bad { Err(RowFault::NotFinite) } else { token }));
            }
        }
        self.previous = drawn;
        let done = StepDone { id: step.id, results, micros: 1 };
        self.flights.push_back((step, done));
        Ok(())
    }

    fn may_write(&self, block: BlockId, by: Option<(SeqId, u32)>) -> Result<(), Violation> {
        ensure(K6, block.0 != 0, || "block 0 is written".into())?;
        for (step, _) in &self.flights {
            let source = step.copies.iter().any(|copy| copy.0 == block);
            ensure(S6, !source, || format!("{block:?} is a copy's source in flight"))?;
            for row in &step.rows {
                for (index, &named) in (0..).zip(&row.table) {
                    let own = by == Some((row.seq, index));
                    ensure(S6, named != block || own, || format!("{block:?} is written for {by:?}, {:?} has it", row.seq))?;
                }
            }
        }
        Ok(())
    }

    fn slot(&self, table: &[BlockId], position: u32) -> usize {
        let block = table[(position / self.block_tokens) as usize];
        (block.0 * self.block_tokens + position % self.block_tokens) as usize
    }
}
