//! Scheduler and pool with scripted tokens, and a record of steps and events.

use kv::{Pool, PoolConfig, RowResult, Sampling, SeqId, Settled, Step, StepDone, Want};
use scheduler::{Counts, Event, KeyId, Limits, Reason, Refusal, Scheduler, Submit, Turn, Wishes};
use std::collections::VecDeque;

pub(crate) const BLOCK_TOKENS: u32 = 4;
/// The stop token of every row that [`ask`] makes.
pub(crate) const STOP: u32 = 999;

pub(crate) struct Bench {
    pub(crate) scheduler: Scheduler,
    pub(crate) pool: Pool,
    /// Which token row `.0` draws at index `.1`.
    pub(crate) script: fn(u64, u32) -> u32,
    pub(crate) flights: VecDeque<Step>,
    pub(crate) steps: Vec<Step>,
    pub(crate) events: Vec<Event>,
    /// What the pool was asked, in order.
    pub(crate) wants: Vec<Want>,
    pub(crate) now_us: u64,
}

pub(crate) fn limits() -> Limits {
    Limits {
        batch: 8,
        prefill_chunk: 16,
        step_tokens: 64,
        context: 1024,
        depth: 1,
        queue: 64,
        pool_tokens: 4096,
        block_tokens: BLOCK_TOKENS,
        prefix_cache: true,
        window: None,
    }
}

/// A row of key 1 that generates up to `max_tokens`.
pub(crate) fn ask(seq: u64, prompt: Vec<u32>, max_tokens: u32) -> Submit {
    Submit {
        seq: SeqId(seq),
        key: KeyId(1),
        weight: 1,
        priority: 0,
        prompt: prompt.into(),
        max_tokens,
        min_tokens: 0,
        stop_ids: [STOP].into(),
        ignore_eos: false,
        sampling: Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0 },
        wishes: Wishes::default(),
        mask: None,
    }
}

/// A prompt that no other row shares.
pub(crate) fn own(seq: u64, length: u32) -> Vec<u32> {
    (0..length).map(|i| 10_000 * (seq as u32 + 1) + i).collect()
}

impl Bench {
    pub(crate) fn new(limits: Limits) -> Bench {
        let blocks = (limits.pool_tokens / u64::from(limits.block_tokens)) as u32;
        let config = PoolConfig { blocks, block_tokens: limits.block_tokens, block_bytes: 1, prefix_cache: limits.prefix_cache };
        Bench {
            scheduler: Scheduler::new(limits),
            pool: Pool::new(config),
            script: |seq, index| (seq as u32) * 100 + index,
            flights: VecDeque::new(),
            steps: Vec::new(),
            events: Vec::new(),
            wants: Vec::new(),
            now_us: 0,
        }
    }

    pub(crate) fn submit(&mut self, submit: Submit) -> Result<(), Refusal> {
        self.scheduler.submit(submit, self.now_us)
    }

    /// Launches steps until there is nothing to launch.
    pub(crate) fn launch(&mut self) {
        while let Some(mut wants) = self.scheduler.begin_turn(self.now_us) {
            loop {
                self.wants.extend(wants.list.iter().cloned());
                let settled: Settled = self.pool.settle(wants);
                match self.scheduler.settled(settled, self.now_us) {
                    Turn::Settle(more) => wants = more,
                    Turn::Idle => break,
                    Turn::Step(step) => {
                        self.steps.push(step.clone());
                        self.flights.push_back(step);
                        break;
                    }
                }
            }
            self.events.extend(self.scheduler.take_events());
            assert_eq!(self.pool.check().and_then(|()| self.scheduler.check()), Ok(()));
        }
    }

    /// The oldest step in flight is done. False if there is none.
    pub(crate) fn done(&mut self) -> bool {
        self.now_us += 1000;
        let Some(step) = self.flights.pop_front() else {
            return false;
        };
        let drawn = step.rows.iter().filter_map(|row| {
            let token = (self.script)(row.seq.0, row.draw.as_ref()?.index);
            Some(RowResult::new(row.seq, Ok(token)))
        });
        let done = StepDone { id: step.id, results: drawn.collect(), micros: 1000 };
        self.events.extend(self.scheduler.step_done(done, self.now_us));
        true
    }

    /// One step: launched, and the oldest one done.
    pub(crate) fn step(&mut self) -> bool {
        self.launch();
        self.done()
    }

    /// Until nothing is left to do.
    pub(crate) fn run(&mut self) {
        for _ in 0..10_000 {
            if !self.step() {
                assert!(self.scheduler.is_empty(), "{:?}", self.scheduler.snapshot());
                return;
            }
        }
        panic!("no end: {:?}", self.scheduler.snapshot());
    }

    pub(crate) fn tokens(&self, seq: u64) -> Vec<u32> {
        let token = |event: &Event| match event {
            Event::Token { seq: of, token, .. } if of.0 == seq => Some(*token),
            _ => None,
        };
        self.events.iter().filter_map(token).collect()
    }

    pub(crate) fn finished(&self, seq: u64) -> Option<(Reason, bool, Counts)> {
        self.events.iter().find_map(|event| match event {
            Event::Finished { seq: of, reason, stop_token, counts } if of.0 == seq => Some((reason.clone(), *stop_token, *counts)),
            _ => None,
        })
    }

    /// Rows in the order of first admission.
    pub(crate) fn admitted(&self) -> Vec<u64> {
        let admitted = |event: &Event| match event {
            Event::Admitted { seq, .. } => Some(seq.0),
            _ => None,
        };
        self.events.iter().filter_map(admitted).collect()
    }

    /// Tokens computed for a row so far, the decoded ones included.
    pub(crate) fn computed(&self, seq: u64) -> u32 {
        let rows = self.steps.iter().flat_map(|step| &step.rows);
        rows.filter(|row| row.seq.0 == seq).map(|row| row.input.count()).sum()
    }

    /// `(row, blocks to spare)` of the admissions asked for so far.
    pub(crate) fn spares(&self) -> Vec<(u64, u32)> {
        let spare = |want: &Want| if let Want::Admit { seq, spare, .. } = want { Some((seq.0, *spare)) } else { None };
        self.wants.iter().filter_map(spare).collect()
    }

    /// `(row, tokens)` of a step.
    pub(crate) fn shape(&self, step: usize) -> Vec<(u64, u32)> {
        self.steps[step].rows.iter().map(|row| (row.seq.0, row.input.count())).collect()
    }
}
