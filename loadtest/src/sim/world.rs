//! Scheduler, pool, device and clients on one virtual clock. The mailboxes around the core are the service's: whatever comes is
//! noted, one turn follows, a list is out with the pool while more comes, and a step's results arrive when it is done.

use super::bound::Bound;
use super::clients::{After, Client, Clients};
use super::device::Device;
use super::script::{Script, What};
use super::seam::Seam;
use super::seen::Seen;
use super::shape::Shape;
use super::shares::{self, Shares};
use kv::invariants::Invariant::{K6, S4, S5, S7};
use kv::invariants::ensure;
use kv::{Pool, SeqId, Settled, Step, Violation, Want, Wants};
use scheduler::{Event, Refusal, Scheduler, Snapshot, Submit, Turn};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Lists that one turn may take: each but the last preempts a row or drops a lost one.
const LISTS_MAX: u32 = 100;

/// Tokens in a client's mailbox above which its row is paused.
const UNREAD_MAX: u32 = 4;

/// Steps and mailboxes for each token asked for, in the worst mix of preemption and loss. Past it, something does not end.
const DUE_PER_TOKEN: u64 = 200;

/// What comes next. At one moment, turns come last: whatever arrives with them is noted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Act(usize),
    /// The settlement of the open turn's list.
    Granted,
    /// The oldest step of this life of the device is done.
    Stepped(u64),
    /// The model is back.
    Back,
    /// The mask of a row's draw of that index.
    Allow(SeqId, u32),
    /// A slow client looks into its mailbox.
    Read(SeqId),
    Leaves(SeqId),
    Turn,
}

impl Due {
    /// Whether the core waits for it.
    fn is_inside(self) -> bool {
        matches!(self, Due::Granted | Due::Stepped(_) | Due::Back | Due::Allow(..) | Due::Turn)
    }
}

pub(crate) struct World<'a, S> {
    shape: Shape,
    script: &'a Script,
    scheduler: Scheduler,
    pool: Pool,
    device: Device,
    clients: Clients,
    shares: Shares,
    bound: Bound,
    seam: &'a mut S,
    due: BinaryHeap<Reverse<(u64, bool, u64, Due)>>,
    /// How many of those the core waits for.
    inside: u32,
    pushed: u64,
    now_us: u64,
    /// When the device will have done what it has.
    busy_until_us: u64,
    turn_due: bool,
    changed: bool,
    /// The answer to the list that is out, and how many lists this turn has taken.
    open: Option<Settled>,
    lists: u32,
    /// Turns begun, and in which of them the model was lost last.
    turns: u64,
    lost_at: u64,
    model_here: bool,
    draining: bool,
    pub(crate) seen: Seen,
}

impl<'a, S: Seam> World<'a, S> {
    pub(crate) fn new(script: &'a Script, seam: &'a mut S) -> World<'a, S> {
        let shape = script.shape;
        let mut world = World {
            shape,
            script,
            scheduler: Scheduler::new(shape.limits),
            pool: Pool::new(shape.pool),
            device: Device::new(shape),
            clients: Clients::default(),
            shares: Shares::default(),
            bound: Bound::new(script.most()),
            seam,
            due: BinaryHeap::new(),
            inside: 0,
            pushed: 0,
            now_us: 0,
            busy_until_us: 0,
            turn_due: false,
            changed: false,
            open: None,
            lists: 0,
            turns: 0,
            lost_at: 0,
            model_here: true,
            draining: false,
            seen: Seen::default(),
        };
        for (index, act) in script.acts.iter().enumerate() {
            world.push(act.at_us, Due::Act(index));
        }
        world
    }

    /// Runs to the end of everything. `acted` is told of each act before it happens.
    pub(crate) fn run(&mut self, acted: impl Fn(usize)) -> Result<(), Violation> {
        let asked = |what: &What| if let What::Submit(ask) = what { ask.submit.prompt.len() as u64 + u64::from(ask.submit.max_tokens) } else { 0 };
        let most = 10_000 + DUE_PER_TOKEN * self.script.acts.iter().map(|act| asked(&act.what)).sum::<u64>();
        while let Some(Reverse((at_us, _, _, due))) = self.due.pop() {
            self.now_us = at_us;
            self.inside -= u32::from(due.is_inside());
            self.seen.events += 1;
            ensure(S7, self.seen.events <= most, || format!("{most} events, and no end"))?;
            if let Due::Act(index) = due {
                acted(index);
            }
            self.happen(due)?;
            self.check(due)?;
        }
        self.seen.apart = self.bound.apart;
        self.seen.virtual_us = self.now_us.max(self.script.span_us);
        self.check_end()
    }

    fn push(&mut self, at_us: u64, due: Due) {
        self.pushed += 1;
        self.inside += u32::from(due.is_inside());
        self.due.push(Reverse((at_us, due == Due::Turn, self.pushed, due)));
    }

    fn happen(&mut self, due: Due) -> Result<(), Violation> {
        self.seen.meanwhile += u64::from(self.open.is_some() && due != Due::Granted && due != Due::Turn);
        match due {
            Due::Act(index) => self.act(&self.script.acts[index].what)?,
            Due::Granted => self.granted()?,
            Due::Stepped(life) if life == self.device.life() => {
                if let Some(done) = self.device.finish() {
                    let events = self.scheduler.step_done(done, self.now_us);
                    self.hear(events)?;
                    self.note(true);
                }
            }
            Due::Stepped(_) => {}
            Due::Back => {
                self.model_here = true;
                self.note(true);
            }
            Due::Allow(seq, index) => {
                let client = self.clients.all.get(&seq);
                if let Some((_, mask)) = client.and_then(|client| client.guide(index - 1, self.shape.vocab)) {
                    self.scheduler.allow(seq, index, mask);
                    self.note(true);
                }
            }
            Due::Read(seq) => self.read(seq),
            Due::Leaves(seq) => self.cancel(seq),
            Due::Turn => self.turn()?,
        }
        Ok(())
    }

    fn act(&mut self, what: &What) -> Result<(), Violation> {
        match what {
            What::Submit(ask) => {
                let refused = self.scheduler.submit(ask.submit.clone(), self.now_us).err();
                self.check_refusal(&ask.submit, refused.as_ref())?;
                if refused.is_none() {
                    self.shares.enter(ask.submit.key, ask.submit.weight);
                    self.bound.weigh(ask.submit.key, ask.submit.weight);
                    self.clients.all.insert(ask.submit.seq, Client::new(ask, self.shape.vocab));
                    self.seen.accepted += 1;
                    self.note(true);
                } else {
                    self.seen.refused += 1;
                }
            }
            What::Cancel(seq) => self.cancel(*seq),
            What::Storm(from) => {
                let all: Vec<SeqId> = self.clients.all.range(*from..).map(|(seq, _)| *seq).collect();
                all.into_iter().for_each(|seq| self.cancel(seq));
            }
            What::Die if self.model_here => {
                self.seen.deaths += 1;
                self.device.lose();
                self.busy_until_us = 0;
                self.scheduler.model_lost(self.now_us);
                self.clients.lose();
                self.model_here = false;
                self.lost_at = self.turns;
                self.note(true);
                self.push(self.now_us + self.shape.pace.reopen_us, Due::Back);
            }
            What::Die => {}
            What::Drain => {
                self.scheduler.drain();
                self.draining = true;
                self.note(true);
            }
        }
        Ok(())
    }

    fn cancel(&mut self, seq: SeqId) {
        let known = self.clients.all.get(&seq).map(|client| (client.key, client.waits()));
        let ran = self.clients.cancel(seq);
        self.scheduler.cancel(seq);
        if let Some((key, waited)) = known.filter(|_| ran) {
            self.seen.cancels += 1;
            self.shares.leave(key, waited);
            self.shares.forget_plan();
        }
        self.note(true);
    }

    /// Something came: a turn follows. A grant alone is no reason to plan again.
    fn note(&mut self, changed: bool) {
        self.changed |= changed;
        if !self.turn_due {
            self.turn_due = true;
            self.push(self.now_us + self.shape.pace.lag_us, Due::Turn);
        }
    }

    fn turn(&mut self) -> Result<(), Violation> {
        self.turn_due = false;
        if self.model_here && self.changed && self.open.is_none() {
            let shared = self.shared();
            match self.scheduler.begin_turn(self.now_us) {
                Some(wants) => {
                    self.turns += 1;
                    self.shares.plan(&self.clients.all, shared);
                    self.lists = 0;
                    self.send(wants)?;
                }
                None => self.changed = false,
            }
        }
        Ok(())
    }

    /// Tokens of a block, if rows may wait for what others compute.
    fn shared(&self) -> Option<u32> {
        self.shape.limits.prefix_cache.then_some(self.shape.limits.block_tokens)
    }

    /// The pool settles a list; its answer is on the way. A list's order is void, news, growth, admissions.
    fn send(&mut self, wants: Wants) -> Result<(), Violation> {
        let sort = |want: &Want| match want {
            Want::Void => 0,
            Want::Flush | Want::Done { .. } | Want::Seal { .. } | Want::Behind { .. } | Want::Forget { .. } | Want::Release { .. } => 1,
            Want::Grow { .. } => 2,
            Want::Admit { .. } => 3,
        };
        ensure(S5, wants.list.is_sorted_by_key(sort), || format!("order: {:?}", wants.list))?;
        self.lists += 1;
        ensure(S7, self.lists <= LISTS_MAX, || "a turn has no end".into())?;
        self.open = Some(self.seam.settle(&mut self.pool, wants));
        self.push(self.now_us + self.shape.pace.settle_us, Due::Granted);
        Ok(())
    }

    fn granted(&mut self) -> Result<(), Violation> {
        let Some(settled) = self.open.take() else { return Ok(()) };
        let turn = self.scheduler.settled(settled, self.now_us);
        let events = self.scheduler.take_events();
        self.hear(events)?;
        match turn {
            Turn::Step(step) => {
                self.launch(step)?;
                // Another may go behind it.
                self.changed = true;
            }
            Turn::Settle(wants) => {
                self.shares.forget_plan();
                return self.send(wants);
            }
            // Idle means it: asked again, the scheduler has nothing either, unless it lost the model meanwhile.
            Turn::Idle if self.model_here && self.lost_at != self.turns => {
                let more = self.scheduler.begin_turn(self.now_us);
                ensure(S7, more.is_none(), || format!("idle, and yet {more:?}"))?;
            }
            Turn::Idle => {}
        }
        self.note(false);
        Ok(())
    }

    fn launch(&mut self, step: Step) -> Result<(), Violation> {
        let (tokens, rows, limits) = (step.tokens(), step.rows.len() as u32, self.scheduler.limits());
        ensure(S4, tokens <= limits.step_tokens && rows <= limits.batch, || format!("{tokens} tokens of {rows} rows"))?;
        self.seen.step(&step, self.shape.pool.blocks);
        self.seen.behind += u64::from(self.busy_until_us > self.now_us);
        self.device.launch(step, &self.clients.all)?;
        let pace = self.shape.pace;
        self.busy_until_us = self.busy_until_us.max(self.now_us) + pace.step_us + u64::from(tokens) * pace.token_us;
        self.push(self.busy_until_us, Due::Stepped(self.device.life()));
        Ok(())
    }

    fn hear(&mut self, events: Vec<Event>) -> Result<(), Violation> {
        for event in &events {
            if let Some(client) = self.clients.all.get(&event.seq()) {
                self.seen.contested += u64::from(self.shares.hear(event, client)?);
                self.bound.hear(event, client)?;
                if let Event::Token { seq, index, .. } = event
                    && let Some((after_us, _)) = client.guide(*index, self.shape.vocab)
                {
                    self.push(self.now_us + after_us, Due::Allow(*seq, index + 1));
                }
                self.bound.keep(&self.shares.waiting());
            }
        }
        for event in self.seam.events(events) {
            self.seen.event(&event);
            self.clients.hear(&event)?;
            let seq = event.seq();
            let Some(client) = self.clients.all.get_mut(&seq) else { continue };
            if client.unread() > UNREAD_MAX && !client.paused && !client.is_over() {
                client.paused = true;
                self.seen.pauses += 1;
                self.scheduler.pause(seq);
                self.note(true);
                let events = self.scheduler.take_events();
                self.hear(events)?;
            }
            let Some(client) = self.clients.all.get_mut(&seq) else { continue };
            if matches!(event, Event::Token { .. }) && !client.reads {
                client.reads = true;
                let (at_us, slow) = (self.now_us + client.read_us, client.read_us > 0);
                if slow {
                    self.push(at_us, Due::Read(seq));
                } else {
                    self.read(seq);
                }
            }
        }
        Ok(())
    }

    /// A client takes a token, and looks again later if there are more.
    fn read(&mut self, seq: SeqId) {
        let Some(client) = self.clients.all.get_mut(&seq) else { return };
        let (after, read_us) = (client.read(), client.read_us);
        client.reads = after == After::More;
        self.seen.unread += u64::from(client.unread());
        if client.unread() == 0 && std::mem::take(&mut client.paused) {
            self.scheduler.resume(seq);
            self.note(true);
        }
        match after {
            After::Nothing => {}
            After::More => self.push(self.now_us + read_us, Due::Read(seq)),
            After::Leaves => self.push(self.now_us, Due::Leaves(seq)),
        }
    }

    fn check_refusal(&self, submit: &Submit, refused: Option<&Refusal>) -> Result<(), Violation> {
        let limits = &self.shape.limits;
        let need = submit.prompt.len() as u32 + submit.max_tokens;
        let blocks = limits.blocks_at_once(need, 0);
        let just = match refused {
            None => !self.draining && need <= limits.context && blocks <= self.shape.pool.blocks,
            Some(Refusal::Empty) => submit.prompt.is_empty() || submit.max_tokens == 0,
            Some(Refusal::TooLong { .. }) => need > limits.context,
            Some(Refusal::NeverFits { .. }) => blocks > self.shape.pool.blocks,
            Some(Refusal::QueueFull { waiting }) => *waiting == limits.queue,
            Some(Refusal::Draining) => self.draining,
        };
        ensure(S4, just, || format!("{refused:?} for {need} tokens"))
    }

    /// Every invariant, after everything that touches the core.
    fn check(&mut self, due: Due) -> Result<(), Violation> {
        if matches!(due, Due::Read(_)) {
            return Ok(());
        }
        self.pool.check()?;
        self.scheduler.check()?;
        let shot: Snapshot = self.scheduler.snapshot();
        self.shares.check(&shot)?;
        if self.shares.waiting().len() > 1 {
            self.bound.wait(&shares::waiting(&self.clients.all, self.shared()).into_keys().collect());
        } else {
            self.bound.wait(&BTreeSet::new());
        }
        let running = self.clients.running();
        ensure(S4, shot.running == running, || format!("{} rows run, clients know of {running}", shot.running))?;
        let ledger = self.pool.ledger();
        let used = u64::from(1 + ledger.total - ledger.free) * ledger.block_bytes;
        ensure(K6, used <= self.shape.budget_bytes, || format!("{used} of {} bytes", self.shape.budget_bytes))?;
        // Whoever waits, waits for something that will come by itself.
        let stuck = self.inside == 0 && !self.scheduler.is_empty() && !self.clients.any_paused();
        ensure(S7, !stuck, || format!("nothing is on its way, and rows are left: {shot:?}"))
    }

    fn check_end(&self) -> Result<(), Violation> {
        ensure(S7, self.scheduler.is_empty(), || format!("rows are left: {:?}", self.scheduler.snapshot()))?;
        self.clients.check_ends()?;
        let ledger = self.pool.ledger();
        ensure(S7, ledger.rows == 0 && ledger.held == 0, || format!("blocks are left: {ledger:?}"))
    }
}
