//! The state machine: what it holds, and what callers can do to it between turns.
//!
//! - `row`: one sequence. `tally`: what its penalties need to know. `queue` and `fair`: who is next.
//! - `plan`: what the next step should do. `turn`: what it does, once the pool has answered.
//! - `done`: results of a step. `behind`: what no later step reads. `check`: what must hold.

mod behind;
mod check;
mod done;
mod fair;
mod plan;
mod queue;
mod row;
mod tally;
mod turn;

use crate::event::{Counts, Event, KeyLoad, Snapshot};
use crate::limits::Limits;
use crate::submit::{Refusal, Submit};
use fair::Accounts;
use kv::{BySeq, Grant, Ledger, Mask, SeqId, StepId, Want};
use queue::Queue;
use row::{Live, Next, Row, starts};
use std::collections::{BTreeMap, VecDeque};
use tally::Tally;
use turn::Open;

/// Sequences and their order. Single-threaded; nothing here waits.
///
/// The caller's loop: after any event, call [`begin_turn`](Self::begin_turn) until it says None, and carry out what
/// [`settled`](Self::settled) says in between. Events may come while a turn is open: they are noted, and what they end is left
/// out of the step.
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    rows: BySeq<Row>,
    /// Rows that hold blocks, oldest first.
    running: Vec<SeqId>,
    /// Rows that ran before, by age: they go before the queue.
    resuming: BTreeMap<u64, SeqId>,
    queue: Queue,
    accounts: Accounts,
    /// Steps in flight, oldest first.
    flights: VecDeque<Flight>,
    last_step: StepId,
    /// What the pool is to be told in the next list, in order.
    chores: Vec<Want>,
    /// The model was lost, and the pool does not know yet.
    void: bool,
    turn: u64,
    open: Option<Open>,
    /// The last turn came to nothing, and nothing has happened since: another would come to nothing too.
    stalled: bool,
    /// The last turn asked for an admission that fell short.
    admission_short: bool,
    events: Vec<Event>,
    ledger: Ledger,
    rooms: Rooms,
    arrivals: u64,
    ages: u64,
    lives: u64,
    recomputed_tokens: u64,
    draining: bool,
}

/// Memory of lists and answers that are done with, for those to come.
#[derive(Debug, Default)]
struct Rooms {
    list: Vec<Want>,
    grants: Vec<Grant>,
}

/// A step in flight.
#[derive(Debug)]
struct Flight {
    id: StepId,
    rows: Vec<Flown>,
}

/// One row of it: positions `start .. end` are computed.
#[derive(Debug)]
struct Flown {
    seq: SeqId,
    life: u64,
    start: u32,
    end: u32,
    draws: bool,
}

impl Scheduler {
    pub fn new(limits: Limits) -> Scheduler {
        Scheduler {
            limits: limits.sane(),
            rows: BySeq::default(),
            running: Vec::new(),
            resuming: BTreeMap::new(),
            queue: Queue::default(),
            accounts: Accounts::default(),
            flights: VecDeque::new(),
            last_step: StepId(0),
            chores: Vec::new(),
            void: false,
            turn: 0,
            open: None,
            stalled: false,
            admission_short: false,
            events: Vec::new(),
            ledger: Ledger::default(),
            rooms: Rooms::default(),
            arrivals: 0,
            ages: 0,
            lives: 0,
            recomputed_tokens: 0,
            draining: false,
        }
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes a sequence, or says why not. `now_us` is of any clock that does not go back. A sequence's id must be new.
    pub fn submit(&mut self, submit: Submit, now_us: u64) -> Result<(), Refusal> {
        self.admissible(&submit)?;
        assert!(!self.rows.contains_key(&submit.seq), "{:?} is submitted twice", submit.seq);
        self.accounts.enter(submit.key, submit.weight);
        self.arrivals += 1;
        let counts = Counts { prompt: submit.prompt.len() as u32, ..Counts::default() };
        let starts = if self.limits.prefix_cache { starts(&submit.prompt, self.limits.block_tokens) } else { Box::default() };
        let tally = Tally::new(&submit.wishes, &submit.prompt);
        let mask = submit.mask.clone().map(|mask| (0, mask));
        let (arrived_us, arrival) = (now_us, self.arrivals);
        let row = Row { submit, starts, arrived_us, arrival, age: None, generated: Vec::new(), flying: 0, counts, paused: false, tally, mask, live: None };
        self.queue.push(&row);
        self.rows.insert(row.seq(), row);
        self.stalled = false;
        Ok(())
    }

    fn admissible(&self, submit: &Submit) -> Result<(), Refusal> {
        let Limits { context, pool_tokens, block_tokens, .. } = self.limits;
        if self.draining {
            return Err(Refusal::Draining);
        }
        if submit.prompt.is_empty() || submit.max_tokens == 0 {
            return Err(Refusal::Empty);
        }
        let need_tokens = submit.prompt.len() as u64 + u64::from(submit.max_tokens);
        if need_tokens > u64::from(context) {
            return Err(Refusal::TooLong { need_tokens, context });
        }
        let blocks = self.limits.blocks_at_once(need_tokens as u32, 0);
        let room_tokens = u64::from(blocks) * u64::from(block_tokens);
        if room_tokens > pool_tokens {
            return Err(Refusal::NeverFits { need_tokens: need_tokens.min(room_tokens), pool_tokens });
        }
        let waiting = self.queue.len();
        if waiting >= self.limits.queue {
            return Err(Refusal::QueueFull { waiting });
        }
        Ok(())
    }

    /// The mask of a row's draw of this index, which is the next one. Rows that have ended, and other draws, are passed over.
    pub fn allow(&mut self, seq: SeqId, index: u32, mask: Mask) {
        let row = self.rows.get_mut(&seq).filter(|row| row.generated.len() == index as usize);
        if let Some(held) = row.and_then(|row| row.mask.as_mut()) {
            *held = (index, mask);
            self.stalled = false;
        }
    }

    /// A row's tokens are not taken for now: it makes room, whatever its age, and does not run until [`resume`](Self::resume). Those that are on
    /// the device still come. Rows that have ended are passed over.
    pub fn pause(&mut self, seq: SeqId) {
        let Some(row) = self.rows.get_mut(&seq) else { return };
        row.paused = true;
        if row.live.is_some() {
            self.give_place(seq);
        }
    }

    /// A paused row goes on, before the queue, in the order of age.
    pub fn resume(&mut self, seq: SeqId) {
        if let Some(row) = self.rows.get_mut(&seq) {
            row.paused = false;
            self.stalled = false;
        }
    }

    /// Forgets a sequence: no event will name it any more. Unknown ids are fine.
    pub fn cancel(&mut self, seq: SeqId) {
        if self.remove(seq).is_some() {
            self.events.retain(|event| event.seq() != seq);
            self.stalled = false;
        }
    }

    /// The model is gone, and every block with it. Running rows go back to the front, in order, and compute their tokens anew; the
    /// next turn starts with [`Want::Void`]. Results of steps launched before are not to be handed in any more.
    pub fn model_lost(&mut self, _now_us: u64) {
        self.flights.clear();
        self.chores.clear();
        self.void = true;
        self.stalled = false;
        for seq in std::mem::take(&mut self.running) {
            let Some(row) = self.rows.get_mut(&seq) else {
                continue;
            };
            row.live = None;
            row.counts.restarts += 1;
            self.resuming.extend(row.age.map(|age| (age, seq)));
        }
        for row in self.rows.values_mut() {
            row.flying = 0;
        }
        if let Some(open) = &mut self.open {
            open.stale = true;
        }
    }

    /// Prefixes that no row holds are forgotten.
    pub fn flush(&mut self) {
        self.chores.push(Want::Flush);
        self.stalled = false;
    }

    /// From now on every submit is refused. Rows that are here already run to their ends.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// No row is left. After [`drain`](Self::drain): ready to go.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Events of turns (admitted, resumed, preempted) that `step_done` has not handed out yet.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Takes a row out of everything, and has its blocks released once no step in flight names them.
    fn remove(&mut self, seq: SeqId) -> Option<Row> {
        let row = self.rows.swap_remove(&seq)?;
        match (&row.live, row.age) {
            (Some(live), _) => {
                self.running.retain(|&other| other != seq);
                self.chores.push(Want::Release { seq, after: self.in_flight(live.last_step) });
            }
            (None, Some(age)) => {
                self.resuming.remove(&age);
            }
            (None, None) => self.queue.remove(&row),
        }
        self.accounts.leave(row.submit.key, row.age.is_none());
        Some(row)
    }

    /// The step, if it is in flight.
    fn in_flight(&self, step: Option<StepId>) -> Option<StepId> {
        let oldest = self.flights.front()?.id;
        step.filter(|&step| step >= oldest)
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut shot = Snapshot {
            running: self.running.len() as u32,
            waiting: self.queue.len(),
            preempted: self.resuming.len() as u32,
            steps_in_flight: self.flights.len() as u32,
            recomputed_tokens: self.recomputed_tokens,
            draining: self.draining,
            ledger: self.ledger,
            ..Snapshot::default()
        };
        let mut running = BTreeMap::new();
        for row in self.rows.values() {
            if let Some(live) = &row.live {
                if matches!(row.next(live), Next::Prefill(_)) {
                    shot.prefilling += 1;
                    shot.prefills.push((row.seq(), live.launched));
                }
                shot.running_tokens += u64::from(row.known());
                *running.entry(row.submit.key).or_insert(0) += 1;
            } else if row.age.is_none() {
                shot.waiting_tokens += u64::from(row.known());
            }
        }
        let load = |(key, rows): (_, u32)| {
            let running = running.get(&key).copied().unwrap_or(0);
            KeyLoad { key, running, waiting: rows - running, charged: self.accounts.charged_tokens(key) }
        };
        shot.keys = self.accounts.active().map(load).collect();
        shot
    }
}
