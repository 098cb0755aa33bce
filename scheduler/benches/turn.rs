//! What a step costs beside the model: planning, the pool's settling, and taking the results. `cargo bench -p scheduler`.
//!
//! Each loop runs production code on a pool of 20,000 blocks and times one part of a step:
//! - `steady`: 64 rows decode, nobody waits;
//! - `churn`: 64 rows run, 1,000 requests of 50 keys wait, and rows end after a few tokens, so that most steps admit somebody.

// A benchmark is about a clock; the crate that it measures is not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

use criterion::{Criterion, criterion_group, criterion_main};
use kv::{BLOCK_TOKENS, Pool, PoolConfig, RowResult, Sampling, SeqId, Step, StepDone};
use scheduler::{Event, KeyId, Limits, Scheduler, Submit, Turn, Wishes};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const BLOCKS: u32 = 20_000;
const ROWS: u32 = 64;

#[derive(Clone, Copy, PartialEq)]
enum Timed {
    /// `begin_turn` and `settled`.
    Plan,
    Settle,
    Done,
}

#[derive(Clone, Copy)]
struct Load {
    waiting: u32,
    keys: u32,
    prompt: u32,
    answer: u32,
}

const STEADY: Load = Load { waiting: 0, keys: 1, prompt: 512, answer: 4096 };
const CHURN: Load = Load { waiting: 1000, keys: 50, prompt: 96, answer: 8 };

struct Loop {
    load: Load,
    scheduler: Scheduler,
    pool: Pool,
    flights: VecDeque<Step>,
    seqs: u64,
    now_us: u64,
}

impl Loop {
    fn new(load: Load) -> Loop {
        let limits = Limits {
            batch: ROWS,
            prefill_chunk: 512,
            step_tokens: 512 + ROWS,
            context: 8192,
            depth: 2,
            queue: 10_000,
            pool_tokens: u64::from(BLOCKS) * u64::from(BLOCK_TOKENS),
            block_tokens: BLOCK_TOKENS,
            prefix_cache: true,
            window: None,
        };
        let pool = Pool::new(PoolConfig { blocks: BLOCKS, block_tokens: BLOCK_TOKENS, block_bytes: 1 << 20, prefix_cache: true });
        let mut this = Loop { load, scheduler: Scheduler::new(limits), pool, flights: VecDeque::new(), seqs: 0, now_us: 0 };
        this.fill();
        // Past the prompts, into the state that lasts.
        for _ in 0..400 {
            this.step(Timed::Plan);
        }
        this
    }

    /// As many requests as the load says.
    fn fill(&mut self) {
        while self.scheduler.snapshot().running + self.scheduler.snapshot().waiting < ROWS + self.load.waiting {
            self.submit();
        }
    }

    fn submit(&mut self) {
        self.seqs += 1;
        let seq = self.seqs;
        // A common start of two blocks, as a system prompt is, and the rest its own.
        let prompt = (0..self.load.prompt).map(|i| if i < 64 { i } else { (seq as u32).wrapping_mul(2_654_435_761).wrapping_add(i) % 50_000 });
        let submit = Submit {
            seq: SeqId(seq),
            key: KeyId(seq as u32 % self.load.keys),
            weight: 1,
            priority: 0,
            prompt: prompt.collect(),
            max_tokens: self.load.answer,
            min_tokens: 0,
            stop_ids: [2].into(),
            ignore_eos: true,
            sampling: Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0 },
            wishes: Wishes::default(),
            mask: None,
        };
        self.scheduler.submit(submit, self.now_us).unwrap();
    }

    /// Launches up to two steps ahead, then finishes the oldest; gives the time that the part took.
    fn step(&mut self, timed: Timed) -> Duration {
        let mut spent = Duration::ZERO;
        let mut of = |part: Timed, since: Instant| {
            if part == timed {
                spent += since.elapsed();
            }
        };
        while let Some(mut wants) = {
            let since = Instant::now();
            let wants = self.scheduler.begin_turn(self.now_us);
            of(Timed::Plan, since);
            wants
        } {
            loop {
                let since = Instant::now();
                let settled = self.pool.settle(wants);
                of(Timed::Settle, since);
                let since = Instant::now();
                let turn = self.scheduler.settled(settled, self.now_us);
                of(Timed::Plan, since);
                match turn {
                    Turn::Settle(more) => wants = more,
                    Turn::Idle => break,
                    Turn::Step(step) => {
                        self.flights.push_back(step);
                        break;
                    }
                }
            }
        }
        let step = self.flights.pop_front().unwrap();
        let results = step.rows.iter().filter(|row| row.draw.is_some()).map(|row| RowResult::new(row.seq, Ok(7))).collect();
        self.now_us += 1000;
        let done = StepDone { id: step.id, results, micros: 1000 };
        let since = Instant::now();
        let events = self.scheduler.step_done(done, self.now_us);
        of(Timed::Done, since);
        let ended = events.iter().filter(|event| matches!(event, Event::Finished { .. })).count();
        self.scheduler.take_events();
        (0..ended).for_each(|_| self.submit());
        spent
    }
}

fn turns(c: &mut Criterion) {
    for (name, load) in [("steady", STEADY), ("churn", CHURN)] {
        for (part, timed) in [("plan", Timed::Plan), ("settle", Timed::Settle), ("done", Timed::Done)] {
            let mut running = Loop::new(load);
            c.bench_function(&format!("{name}/{part}"), |b| b.iter_custom(|steps| (0..steps).map(|_| running.step(timed)).sum()));
        }
    }
}

criterion_group!(benches, turns);
criterion_main!(benches);
