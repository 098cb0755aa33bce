//! S1 to S7 as far as one state can show them. What only a history can show (S2, S3, S6, S8) is checked by the simulator.

use super::row::Next;
use super::{Flight, Scheduler};
use kv::Violation;
use kv::invariants::Invariant::{S1, S4, S5, S7};
use kv::invariants::ensure;

impl Scheduler {
    /// Every invariant of the scheduler. O(rows).
    pub fn check(&self) -> Result<(), Violation> {
        let flights = self.flights.len();
        ensure(S1, flights <= self.limits.depth.min(2) as usize, || format!("{flights} steps"))?;
        self.check_limits()?;
        self.check_places()?;
        self.check_progress()
    }

    fn check_limits(&self) -> Result<(), Violation> {
        let limits = &self.limits;
        let running = self.running.len();
        ensure(S4, running <= limits.batch as usize, || format!("{running} rows run"))?;
        let waiting = self.queue.len();
        ensure(S4, waiting <= limits.queue, || format!("{waiting} rows wait"))?;
        for Flight { id, rows } in &self.flights {
            let tokens: u32 = rows.iter().map(|flown| flown.end - flown.start).sum();
            ensure(S4, tokens <= limits.step_tokens, || format!("{id:?}: {tokens} tokens"))?;
            let chunk = rows.iter().map(|flown| flown.end - flown.start).max().unwrap_or(0);
            ensure(S4, chunk <= limits.prefill_chunk, || format!("{id:?}: a chunk of {chunk}"))?;
        }
        for (seq, row) in &self.rows {
            let known = row.known();
            ensure(S4, known <= limits.context, || format!("{seq:?}: {known} tokens"))?;
            let generated = row.generated.len() as u32 + row.flying;
            let most = row.submit.max_tokens;
            ensure(S4, generated <= most, || format!("{seq:?}: {generated} of {most} drawn"))?;
        }
        Ok(())
    }

    /// Each row is in exactly one place, and the running ones are in order.
    fn check_places(&self) -> Result<(), Violation> {
        let places = self.running.len() + self.resuming.len() + self.queue.len() as usize;
        ensure(S7, places == self.rows.len(), || format!("{places} places, {} rows", self.rows.len()))?;
        let live = self.rows.values().filter(|row| row.live.is_some()).count();
        ensure(S7, live == self.running.len(), || format!("{live} rows hold blocks"))?;
        let sorted = self.running.is_sorted_by_key(|seq| self.rows.get(seq).and_then(|row| row.age));
        ensure(S5, sorted, || "running rows are not in the order of age".into())
    }

    /// A running row can do something, or a step in flight will change that.
    fn check_progress(&self) -> Result<(), Violation> {
        for (row, live) in self.live_rows() {
            let stuck = row.next(live) == Next::Wait && self.flights.is_empty();
            ensure(S7, !stuck, || format!("{:?} waits for nothing", row.seq()))?;
        }
        Ok(())
    }
}
