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

    /// A running row can do something, or a step in flight will change that, or a mask that is on its way.
    fn check_progress(&self) -> Result<(), Violation> {
        for (row, live) in self.live_rows() {
            let stuck = row.next(live) == Next::Wait && row.ready() && self.flights.is_empty();
            ensure(S7, !stuck, || format!("{:?} waits for nothing", row.seq()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::row::Row;
    use crate::event::Turn;
    use crate::limits::Limits;
    use crate::submit::{KeyId, Submit, Wishes};
    use kv::invariants::Invariant;
    use kv::{Pool, PoolConfig, Sampling, SeqId, StepId};

    /// Rows 1 and 2, of four and six prompt tokens, are in a step in flight, from which row 1 gets its only token. Row 3 waits.
    fn scheduler() -> Scheduler {
        let mut scheduler = Scheduler::new(Limits {
            batch: 8,
            prefill_chunk: 16,
            step_tokens: 64,
            context: 100,
            depth: 2,
            queue: 4,
            pool_tokens: 400,
            block_tokens: 4,
            prefix_cache: true,
            window: None,
        });
        let mut pool = Pool::new(PoolConfig { blocks: 100, block_tokens: 4, block_bytes: 1, prefix_cache: true });
        for (seq, prompt, max_tokens) in [(1, vec![1; 4], 1), (2, vec![2; 6], 3), (3, vec![3; 5], 2)] {
            if seq == 3 {
                let wants = scheduler.begin_turn(0).unwrap();
                assert!(matches!(scheduler.settled(pool.settle(wants), 0), Turn::Step(_)));
            }
            let sampling = Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0 };
            let (seq, prompt, stop_ids) = (SeqId(seq), prompt.into(), [].into());
            let row = Submit {
                seq,
                key: KeyId(1),
                weight: 1,
                priority: 0,
                prompt,
                max_tokens,
                min_tokens: 0,
                stop_ids,
                ignore_eos: false,
                sampling,
                wishes: Wishes::default(),
                mask: None,
            };
            scheduler.submit(row, 0).unwrap();
        }
        scheduler
    }

    fn row(scheduler: &mut Scheduler, seq: u64) -> &mut Row {
        scheduler.rows.get_mut(&SeqId(seq)).unwrap()
    }

    fn launch(scheduler: &mut Scheduler, steps: u64) {
        scheduler.flights.extend((0..steps).map(|step| Flight { id: StepId(step + 2), rows: Vec::new() }));
    }

    /// The six tokens of row 2 are others, further on.
    fn shift(scheduler: &mut Scheduler) {
        let flown = &mut scheduler.flights[0].rows[1];
        (flown.start, flown.end) = (30, 36);
    }

    type Damage = fn(&mut Scheduler);

    #[test]
    fn what_exceeds_a_limit_is_noticed_and_what_reaches_it_is_not() {
        let rows: &[(&str, Damage, Option<Invariant>)] = &[
            ("nothing", |_| {}, None),
            ("two steps", |it| launch(it, 1), None),
            ("three steps", |it| launch(it, 2), Some(S1)),
            ("rows", |it| it.limits.batch = 2, None),
            ("too many rows", |it| it.limits.batch = 1, Some(S4)),
            ("queue", |it| it.limits.queue = 1, None),
            ("too long a queue", |it| it.limits.queue = 0, Some(S4)),
            (
                "step tokens",
                |it| {
                    shift(it);
                    it.limits.step_tokens = 10;
                },
                None,
            ),
            ("too many step tokens", |it| it.limits.step_tokens = 9, Some(S4)),
            (
                "chunk",
                |it| {
                    shift(it);
                    it.limits.prefill_chunk = 6;
                },
                None,
            ),
            ("too long a chunk", |it| it.limits.prefill_chunk = 5, Some(S4)),
            ("context", |it| it.limits.context = 6, None),
            ("too long a row", |it| it.limits.context = 5, Some(S4)),
            ("too many draws", |it| row(it, 1).flying = 2, Some(S4)),
        ];
        check(rows);
    }

    #[test]
    fn rows_in_a_wrong_place_are_noticed() {
        let rows: &[(&str, Damage, Option<Invariant>)] = &[
            (
                "a row in two places",
                |it| {
                    it.resuming.insert(1, SeqId(1));
                },
                Some(S7),
            ),
            ("a running row without blocks", |it| row(it, 1).live = None, Some(S7)),
            ("a younger row first", |it| it.running.swap(0, 1), Some(S5)),
            ("a row that waits for a token of no step", |it| it.flights.clear(), Some(S7)),
            (
                "rows that can go on without one",
                |it| {
                    it.flights.clear();
                    for seq in [1, 2] {
                        row(it, seq).flying = 0;
                    }
                },
                None,
            ),
        ];
        check(rows);
    }

    fn check(rows: &[(&str, Damage, Option<Invariant>)]) {
        for (what, damage, violated) in rows {
            let mut scheduler = scheduler();
            damage(&mut scheduler);
            assert_eq!(scheduler.check().err().map(|violation| violation.invariant), *violated, "{what}");
        }
    }
}
