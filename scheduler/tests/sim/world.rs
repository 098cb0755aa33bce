//! Scheduler, pool and device together, and a record of what the clients saw.

use crate::device::{Device, Truth};
use crate::rows::{self, End, Run, STOP};
use crate::strategy::{Ask, BLOCK_TOKENS, CONTEXT, Op, Shape};
use kv::invariants::Invariant::{S2, S3, S4, S5, S7};
use kv::invariants::ensure;
use kv::{Input, Pool, PoolConfig, Sampling, SeqId, Settled, Violation, Want, Wants};
use proptest::test_runner::TestCaseError;
use scheduler::{Event, KeyId, Reason, Refusal, Scheduler, Submit, Turn};
use std::collections::{BTreeMap, BTreeSet};

/// More turns than any list of events needs to drain: then something does not end.
const TURNS_MAX: u32 = 3_000;

pub(crate) struct World {
    shape: Shape,
    scheduler: Scheduler,
    pool: Pool,
    device: Device,
    runs: BTreeMap<SeqId, (Run, Option<u32>)>,
    clients: BTreeMap<SeqId, Client>,
    /// Rows that hold blocks, by order of first admission.
    running: BTreeSet<(u64, SeqId)>,
    now_us: u64,
    pub(crate) seen: Seen,
}

/// How often the rarer things happened: a simulator that never meets them tests nothing.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) preempted: u32,
    pub(crate) resumed: u32,
    pub(crate) resumed_cached: u32,
    pub(crate) cached: u32,
    pub(crate) copies: u32,
    pub(crate) from_previous: u32,
    pub(crate) faults: u32,
    pub(crate) stops: u32,
    pub(crate) refused: u32,
    pub(crate) restarted: u32,
}

impl Seen {
    pub(crate) fn all(&mut self) -> [&mut u32; 10] {
        [
            &mut self.preempted,
            &mut self.resumed,
            &mut self.resumed_cached,
            &mut self.cached,
            &mut self.copies,
            &mut self.from_previous,
            &mut self.faults,
            &mut self.stops,
            &mut self.refused,
            &mut self.restarted,
        ]
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Admitted { cached, .. } => self.cached += u32::from(*cached > 0),
            Event::Resumed { cached, .. } => {
                self.resumed += 1;
                self.resumed_cached += u32::from(*cached > 0);
            }
            Event::Preempted { .. } => self.preempted += 1,
            Event::Token { .. } => {}
            Event::Finished { reason, counts, .. } => {
                self.restarted += u32::from(counts.restarts > 0);
                self.faults += u32::from(matches!(reason, Reason::Fault(_)));
                self.stops += u32::from(*reason == Reason::Stop);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Client {
    delivered: u32,
    age: Option<u64>,
    finished: bool,
    cancelled: bool,
}

impl World {
    pub(crate) fn new(shape: Shape) -> World {
        let Shape { limits, blocks } = shape;
        World {
            scheduler: Scheduler::new(limits),
            pool: Pool::new(PoolConfig { blocks, block_tokens: BLOCK_TOKENS, block_bytes: 1000, prefix_cache: limits.prefix_cache }),
            device: Device::new(blocks, BLOCK_TOKENS),
            runs: BTreeMap::new(),
            clients: BTreeMap::new(),
            running: BTreeSet::new(),
            now_us: 0,
            seen: Seen::default(),
            shape,
        }
    }

    pub(crate) fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        self.try_apply(op).and_then(|()| self.check()).map_err(|v| TestCaseError::fail(v.to_string()))
    }

    /// Drains: every row that was taken ends, and every block comes back.
    pub(crate) fn finish(&mut self) -> Result<(), TestCaseError> {
        self.try_finish().map_err(|violation| TestCaseError::fail(violation.to_string()))
    }

    fn check(&self) -> Result<(), Violation> {
        self.pool.check()?;
        self.scheduler.check()
    }

    fn try_apply(&mut self, op: &Op) -> Result<(), Violation> {
        self.now_us += 10;
        match op {
            Op::Submit(ask) => return self.submit(ask),
            Op::Cancel(number) => {
                let seq = SeqId(u64::from(*number));
                self.scheduler.cancel(seq);
                if let Some(client) = self.clients.get_mut(&seq) {
                    client.cancelled = true;
                }
                self.running.retain(|row| row.1 != seq);
            }
            Op::Turn(meanwhile) => {
                self.turn(meanwhile)?;
            }
            Op::Done => {
                if let Some((_, done)) = self.device.flights.pop_front() {
                    let events = self.scheduler.step_done(done, self.now_us);
                    self.hear(events)?;
                }
            }
            Op::Lose => {
                self.device.lose();
                self.scheduler.model_lost(self.now_us);
                self.running.clear();
            }
        }
        Ok(())
    }

    fn submit(&mut self, ask: &Ask) -> Result<(), Violation> {
        let seq = SeqId(self.clients.len() as u64);
        let common = (0..ask.shared.0).map(|i| (i * 7 + ask.shared.1) % 3);
        let prompt: Vec<u32> = common.chain(ask.own.iter().copied()).collect();
        let submit = Submit {
            seq,
            key: KeyId(ask.key),
            weight: ask.weight,
            priority: ask.priority,
            prompt: prompt.into(),
            max_tokens: ask.max_tokens,
            min_tokens: ask.min_tokens,
            stop_ids: if ask.stop { [STOP].into() } else { [].into() },
            ignore_eos: ask.ignore_eos,
            sampling: Sampling { temperature: 1.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: seq.0 },
        };
        let need = submit.prompt.len() as u32 + submit.max_tokens;
        let refused = self.scheduler.submit(submit.clone(), self.now_us).err();
        let blocks = need.div_ceil(BLOCK_TOKENS);
        let just = match &refused {
            None => need <= CONTEXT && blocks <= self.shape.blocks,
            Some(Refusal::Empty) => submit.prompt.is_empty() || submit.max_tokens == 0,
            Some(Refusal::TooLong { .. }) => need > CONTEXT,
            Some(Refusal::NeverFits { .. }) => blocks > self.shape.blocks,
            Some(Refusal::QueueFull { waiting }) => *waiting == self.shape.limits.queue,
            Some(Refusal::Draining) => false,
        };
        ensure(S4, just, || format!("{refused:?} for {need} tokens"))?;
        self.seen.refused += u32::from(refused.is_some());
        if refused.is_none() {
            self.runs.insert(seq, (rows::run(&submit, ask.fault_at), ask.fault_at));
            self.clients.insert(seq, Client::default());
        }
        Ok(())
    }

    /// A turn to its end. False if there was nothing to do.
    fn turn(&mut self, mut meanwhile: &[Op]) -> Result<bool, Violation> {
        let Some(mut wants) = self.scheduler.begin_turn(self.now_us) else {
            return Ok(false);
        };
        let lost = meanwhile.iter().any(|op| matches!(op, Op::Lose));
        // Each list of a turn preempts a row, drops a lost one, or is the last.
        for _ in 0..100 {
            let settled = self.settle(wants)?;
            for op in std::mem::take(&mut meanwhile) {
                self.try_apply(op)?;
                self.scheduler.check()?;
            }
            let turn = self.scheduler.settled(settled, self.now_us);
            let events = self.scheduler.take_events();
            self.hear(events)?;
            self.check()?;
            match turn {
                Turn::Step(step) => {
                    let tokens = step.tokens();
                    ensure(S4, tokens <= self.scheduler.limits().step_tokens, || format!("{tokens} tokens"))?;
                    self.seen.copies += step.copies.len() as u32;
                    self.seen.from_previous += step.rows.iter().filter(|row| row.input == Input::FromPrevious).count() as u32;
                    self.device.launch(step, &Truth { runs: &self.runs })?;
                    return Ok(true);
                }
                Turn::Settle(more) => wants = more,
                Turn::Idle => {
                    // Idle means it: asked again, the scheduler has nothing either, unless it lost the model meanwhile.
                    let more = if lost { None } else { self.scheduler.begin_turn(self.now_us) };
                    ensure(S7, more.is_none(), || format!("idle, and yet {more:?}"))?;
                    return Ok(true);
                }
            }
        }
        Err(Violation::new(S7, "a turn has no end"))
    }

    /// The list's order is releases, growth, admissions; each grant leaves the pool whole.
    fn settle(&mut self, wants: Wants) -> Result<Settled, Violation> {
        let sort = |want: &Want| match want {
            Want::Void => 0,
            Want::Done { .. } | Want::Seal { .. } | Want::Forget { .. } | Want::Release { .. } => 1,
            Want::Grow { .. } => 2,
            Want::Admit { .. } => 3,
        };
        ensure(S5, wants.list.is_sorted_by_key(sort), || format!("order: {:?}", wants.list))?;
        let settled = self.pool.settle(wants);
        self.pool.check()?;
        Ok(settled)
    }

    fn hear(&mut self, events: Vec<Event>) -> Result<(), Violation> {
        for event in events {
            let seq = event.seq();
            let Some(client) = self.clients.get_mut(&seq) else {
                return Err(Violation::new(S2, format!("{seq:?} was never taken")));
            };
            let over = client.finished || client.cancelled;
            ensure(S2, !over, || format!("{event:?} after its end"))?;
            let (run, _) = &self.runs[&seq];
            self.seen.note(&event);
            match event {
                Event::Admitted { .. } | Event::Resumed { .. } => {
                    let first = matches!(event, Event::Admitted { .. });
                    ensure(S2, first == client.age.is_none(), || format!("{event:?} twice"))?;
                    let age = *client.age.get_or_insert(self.now_us * 1000 + self.running.len() as u64);
                    self.running.insert((age, seq));
                }
                Event::Preempted { .. } => {
                    let oldest = self.running.first().is_some_and(|row| row.1 == seq);
                    ensure(S5, !oldest, || format!("{seq:?} is preempted"))?;
                    self.running.retain(|row| row.1 != seq);
                }
                Event::Token { token, index, .. } => {
                    let expected = run.delivered.get(index as usize);
                    ensure(S3, index == client.delivered, || format!("{event:?}"))?;
                    ensure(S3, expected == Some(&token), || format!("{event:?}, not {expected:?}"))?;
                    client.delivered += 1;
                }
                Event::Finished { reason, stop_token, counts, .. } => {
                    client.finished = true;
                    self.running.retain(|row| row.1 != seq);
                    let end = match reason {
                        Reason::Stop => End::Stop,
                        Reason::Length => End::Length,
                        Reason::Fault(_) => End::Fault,
                    };
                    let whole = client.delivered as usize == run.delivered.len();
                    let same = end == run.end && counts.generated == run.drawn && whole;
                    ensure(S3, same, || format!("{seq:?} ends with {end:?}, {counts:?}: {run:?}"))?;
                    ensure(S3, stop_token == (end == End::Stop), || format!("{seq:?}: stop token"))?;
                }
            }
        }
        Ok(())
    }

    fn try_finish(&mut self) -> Result<(), Violation> {
        self.scheduler.drain();
        for _ in 0..TURNS_MAX {
            let turned = self.turn(&[])?;
            self.check()?;
            if turned {
                continue;
            }
            if self.device.flights.is_empty() {
                break;
            }
            self.try_apply(&Op::Done)?;
            self.check()?;
        }
        let left = self.scheduler.snapshot();
        ensure(S7, self.scheduler.is_empty(), || format!("rows are left: {left:?}"))?;
        for (seq, client) in &self.clients {
            let once = client.finished != client.cancelled || client.finished;
            ensure(S2, once, || format!("{seq:?} never ended"))?;
        }
        let ledger = self.pool.ledger();
        ensure(S7, ledger.rows == 0 && ledger.held == 0, || format!("blocks are left: {ledger:?}"))
    }
}
