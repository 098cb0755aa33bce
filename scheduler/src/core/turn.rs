//! A turn: a list for the pool, and from its answer a step, or another list after a preemption.

use super::plan::{Entrant, Growth, Part, Plan};
use super::{Flight, Flown, Live, Scheduler};
use crate::event::{Event, Turn};
use kv::{BlockId, Grant, NewBlocks, SeqId, Settled, Step, StepId, StepRow, Want, Wants};

/// A turn whose list is with the pool.
#[derive(Debug)]
pub(super) struct Open {
    turn: u64,
    /// What is asked for, in order: after what the list only tells.
    asks: Vec<Ask>,
    parts: Vec<Part>,
    /// The model was lost since: the answer says nothing.
    pub(super) stale: bool,
}

#[derive(Debug, Clone, Copy)]
enum Ask {
    Grow(Growth),
    Admit(Entrant),
}

impl Scheduler {
    /// The next list for the pool. None: nothing to do, or a turn is open, or the depth is reached.
    pub fn begin_turn(&mut self, _now_us: u64) -> Option<Wants> {
        if self.open.is_some() || self.stalled || self.flights.len() >= self.limits.depth as usize {
            return None;
        }
        self.give_up_behind();
        let Plan { parts, growths, entrants } = self.plan();
        let asks: Vec<Ask> = growths.into_iter().map(Ask::Grow).chain(entrants.into_iter().map(Ask::Admit)).collect();
        if asks.is_empty() && parts.is_empty() && self.chores.is_empty() && !self.void {
            return None;
        }
        // Whatever happens from here on clears this again.
        self.stalled = true;
        Some(self.open(asks, parts))
    }

    /// Opens a turn. What events left to be told comes before what is asked for.
    fn open(&mut self, asks: Vec<Ask>, parts: Vec<Part>) -> Wants {
        let mut list = std::mem::replace(&mut self.chores, std::mem::take(&mut self.rooms.list));
        if std::mem::take(&mut self.void) {
            list.insert(0, Want::Void);
        }
        list.extend(asks.iter().map(|ask| self.want(ask)));
        self.turn += 1;
        self.open = Some(Open { turn: self.turn, asks, parts, stale: false });
        Wants { turn: self.turn, list, room: std::mem::take(&mut self.rooms.grants) }
    }

    fn want(&self, ask: &Ask) -> Want {
        match *ask {
            Ask::Grow(Growth { seq, tokens, .. }) => Want::Grow { seq, tokens },
            Ask::Admit(Entrant { seq, chunk, spare }) => {
                let row = &self.rows[&seq];
                let prompt = if row.generated.is_empty() { row.submit.prompt.clone() } else { row.ids(0, row.known()).into_vec().into() };
                Want::Admit { seq, prompt, chunk, spare, window: self.limits.window() }
            }
        }
    }

    /// The pool's answer to the open turn's list. Answers to other lists are ignored.
    pub fn settled(&mut self, settled: Settled, now_us: u64) -> Turn {
        let Settled { turn, mut grants, ledger, room } = settled;
        let Some(open) = self.open.take_if(|open| open.turn == turn) else {
            return Turn::Idle;
        };
        self.ledger = ledger;
        self.rooms.list = room;
        if open.stale {
            return Turn::Idle;
        }
        let mut parts = open.parts;
        let mut copies = Vec::new();
        let short = open.asks.get(grants.len()).copied();
        let rest = open.asks.get(grants.len()..).unwrap_or(&[]);
        for (ask, grant) in open.asks.iter().zip(grants.drain(..)) {
            match (ask, grant) {
                (Ask::Grow(growth), Grant::Grown { new }) => self.grown(growth, new),
                (Ask::Admit(entrant), Grant::Admitted { cached, table, copy }) => {
                    if let Some(part) = self.admitted(entrant, cached, table, now_us) {
                        parts.push(part);
                        copies.extend(copy);
                    }
                }
                (_, _) => {}
            }
        }
        self.rooms.grants = grants;
        self.admission_short = matches!(short, Some(Ask::Admit(_)));
        if let Some(Ask::Grow(growth)) = short
            && let Some(wants) = self.make_room(growth, rest, &parts)
        {
            return Turn::Settle(wants);
        }
        match self.launch(&parts, copies) {
            Some(step) => Turn::Step(step),
            // Something changed since the list was made, maybe by a preemption: there may be other rows to plan for.
            None => self.begin_turn(now_us).map_or(Turn::Idle, Turn::Settle),
        }
    }

    fn live(&mut self, seq: SeqId, life: u64) -> Option<&mut Live> {
        self.rows.get_mut(&seq)?.live.as_mut().filter(|live| live.life == life)
    }

    /// A row that ended meanwhile has its release among the chores already: it gives these blocks back too.
    fn grown(&mut self, growth: &Growth, new: NewBlocks) {
        if let Some(live) = self.live(growth.seq, growth.life) {
            live.table.extend(new);
        }
    }

    /// The row runs. None if it was cancelled meanwhile: then its blocks go back.
    fn admitted(&mut self, entrant: &Entrant, cached: u32, table: Vec<BlockId>, now_us: u64) -> Option<Part> {
        let seq = entrant.seq;
        let Some(row) = self.rows.get_mut(&seq) else {
            self.chores.push(Want::Release { seq, after: None });
            return None;
        };
        self.lives += 1;
        let life = self.lives;
        let given_up = table.iter().take_while(|block| block.0 == 0).count() as u32;
        row.live = Some(Live { life, table, given_up, launched: cached, sealed: cached, last_step: None });
        let left = row.known() - cached;
        if let Some(age) = row.age {
            self.resuming.remove(&age);
            self.recomputed_tokens += u64::from(left);
            self.events.push(Event::Resumed { seq, cached, recomputed: left });
        } else {
            self.ages += 1;
            row.age = Some(self.ages);
            row.counts.cached = cached;
            self.queue.remove(row);
            self.accounts.admit(row.submit.key, row.counts.prompt);
            let wait_us = now_us.saturating_sub(row.arrived_us);
            self.events.push(Event::Admitted { seq, cached, wait_us });
        }
        let age = row.age;
        let place = self.running.partition_point(|other| self.rows[other].age < age);
        self.running.insert(place, seq);
        Some(Part { seq, life, count: entrant.chunk.min(left) })
    }

    /// A running row's growth fell short. If blocks come back with the steps in flight, because they are held for them or lie behind
    /// a window once they are done, the rows that need blocks wait for them; otherwise the youngest row makes room, and the rest of
    /// the list is asked for again, without admissions.
    fn make_room(&mut self, short: Growth, rest: &[Ask], parts: &[Part]) -> Option<Wants> {
        let Growth { seq, life, tokens } = short;
        let needed = self.limits.blocks_for(tokens);
        let have = self.live(seq, life).map(|live| live.table.len() as u32);
        if let Some(have) = have {
            let soon = self.ledger.free + self.ledger.prefix + self.ledger.held + self.behind_soon();
            if !self.flights.is_empty() && needed - have <= soon {
                return None;
            }
            let &youngest = self.running.get(1..)?.last()?;
            self.preempt(youngest);
        }
        let grows = |ask: &&Ask| match ask {
            Ask::Grow(growth) => self.is_live(growth.seq, growth.life),
            Ask::Admit(_) => false,
        };
        let asks = rest.iter().filter(grows).copied().collect();
        let parts = parts.iter().filter(|part| self.is_live(part.seq, part.life)).copied().collect();
        Some(self.open(asks, parts))
    }

    fn is_live(&self, seq: SeqId, life: u64) -> bool {
        self.rows.get(&seq).and_then(|row| row.live.as_ref()).is_some_and(|live| live.life == life)
    }

    /// The youngest row gives its blocks back and goes to the front of the queue. Never the oldest (S5), hence progress.
    fn preempt(&mut self, seq: SeqId) {
        assert!(self.running.first() != Some(&seq), "S5: {seq:?} is the oldest row");
        self.give_place(seq);
    }

    /// A running row gives its blocks back and goes to those that will resume.
    pub(super) fn give_place(&mut self, seq: SeqId) {
        let Some(row) = self.rows.get_mut(&seq) else {
            return;
        };
        let last_step = row.live.take().and_then(|live| live.last_step);
        row.counts.preemptions += 1;
        self.resuming.extend(row.age.map(|age| (age, seq)));
        self.running.retain(|&other| other != seq);
        self.chores.push(Want::Release { seq, after: self.in_flight(last_step) });
        self.events.push(Event::Preempted { seq });
        // Should this turn come to nothing, another may not.
        self.stalled = false;
    }

    /// Makes a step of those parts whose rows still run and have the blocks. None: there are none.
    fn launch(&mut self, parts: &[Part], copies: Vec<(BlockId, BlockId)>) -> Option<Step> {
        let id = StepId(self.last_step.0 + 1);
        let (mut rows, mut flown) = (Vec::new(), Vec::new());
        for part in parts {
            let blocks_for = |tokens| self.limits.blocks_for(tokens) as usize;
            let Some(row) = self.rows.get_mut(&part.seq) else {
                continue;
            };
            let Some(live) = row.live.as_ref().filter(|live| live.life == part.life) else {
                continue;
            };
            let (start, end) = (live.launched, live.launched + part.count);
            let Some(table) = live.table.get(..blocks_for(end)) else {
                continue;
            };
            let table = table.to_vec();
            let draw = row.draw(end);
            flown.push(Flown { seq: part.seq, life: part.life, start, end, draws: draw.is_some() });
            rows.push(StepRow { seq: part.seq, input: row.input(start, part.count), start, table, draw });
            row.flying += u32::from(flown.last().is_some_and(|flown| flown.draws));
            if let Some(live) = &mut row.live {
                (live.launched, live.last_step) = (end, Some(id));
            }
        }
        if rows.is_empty() {
            return None;
        }
        self.last_step = id;
        self.stalled = false;
        self.flights.push_back(Flight { id, rows: flown });
        Some(Step { id, copies, rows })
    }
}
