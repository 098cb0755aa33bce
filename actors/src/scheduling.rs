//! The Scheduler actor: it notes what happened, takes one turn after all of it has been noted, and carries out what the pure
//! scheduler decides. No policy here.

use crate::budget::Budget;
use crate::messages::{Allow, Cancel, Cut, Drain, Flow, Flush, Granted, LossHeard, ModelIs, Route, RunStep, Settle, Stepped, Submit, What};
use crate::model::Model;
use crate::rate::Rate;
use crate::reporting::Reporting;
use crate::rows::Board;
use crate::stats::Stats;
use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use kv::{Ledger, SeqId};
use metrics::Metrics;
use scheduler::{Event, Limits, Scheduler, Turn};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

pub(crate) struct Scheduling {
    core: Scheduler,
    pub(crate) budget: Addr<Budget>,
    pub(crate) model: Addr<Model>,
    routes: HashMap<SeqId, Route>,
    notes: Vec<Note>,
    /// A [`TakeTurn`] is on its way: it runs after every message that is in the mailbox now.
    turn_due: bool,
    /// Something happened since the core last had nothing to do.
    changed: bool,
    /// The KV-budget is settling a turn's list.
    open_since: Option<Instant>,
    model_is: ModelState,
    epoch: Instant,
    rate: Rate,
    report: Reporting,
}

enum ModelState {
    Here,
    Opening,
    /// It may come back, but nobody should wait for that.
    Down(String),
    Gone(String),
}

/// What a handler noted for the turn.
enum Note {
    Submit(Submit),
    Cancel(SeqId),
    Allow(Allow),
    Flow(Flow),
    Granted(kv::Settled),
    Stepped(Stepped),
    Model(ModelIs),
    Drain,
    Flush,
    Cut(Cut),
}

/// Scheduler to itself: everything is noted, now decide.
#[derive(Message)]
#[rtype(result = "()")]
struct TakeTurn;

impl Actor for Scheduling {
    type Context = Context<Self>;
}

/// After a panic here, or when the service goes down. Readiness turns first, then the routes' own end tells the rows.
impl Drop for Scheduling {
    fn drop(&mut self) {
        if !matches!(self.model_is, ModelState::Gone(_)) {
            self.report.gone("the scheduler stopped");
            self.report.publish();
        }
    }
}

impl Scheduling {
    pub(crate) fn new(
        limits: Limits,
        ledger: Ledger,
        budget: Addr<Budget>,
        model: Addr<Model>,
        metrics: Arc<Metrics>,
        publish: watch::Sender<Arc<Stats>>,
        board: Arc<Board>,
    ) -> Scheduling {
        let mut report = Reporting::new(metrics, publish, board);
        report.ledger(ledger);
        report.publish();
        let epoch = Instant::now();
        Scheduling {
            core: Scheduler::new(limits),
            budget,
            model,
            routes: HashMap::new(),
            notes: Vec::new(),
            turn_due: false,
            changed: false,
            open_since: None,
            model_is: ModelState::Here,
            epoch,
            rate: Rate::new(epoch),
            report,
        }
    }

    fn note(&mut self, note: Note, ctx: &mut Context<Self>) {
        self.notes.push(note);
        if !self.turn_due {
            self.turn_due = true;
            // Spawned on the context, so it is polled only when the mailbox is empty: one turn for a burst of messages.
            ctx.notify(TakeTurn);
        }
    }

    fn turn(&mut self) {
        self.turn_due = false;
        for note in std::mem::take(&mut self.notes) {
            self.apply(note);
        }
        let here = matches!(self.model_is, ModelState::Here);
        if here && self.changed && self.open_since.is_none() {
            match self.core.begin_turn(self.now_us()) {
                Some(wants) => {
                    self.open_since = Some(Instant::now());
                    self.budget.do_send(Settle(wants));
                }
                None => self.changed = false,
            }
        }
        let events = self.core.take_events();
        self.deliver(events);
        self.check();
        self.report.rows(&self.core.snapshot());
        self.rate.busy(!self.routes.is_empty(), Instant::now());
        self.report.retry_after_s(self.retry_after_s());
        self.report.publish();
    }

    fn retry_after_s(&self) -> u32 {
        self.rate.retry_after_s(self.routes.len() as u32, Instant::now())
    }

    fn apply(&mut self, note: Note) {
        // A grant that leaves nothing to run is no reason to ask again; everything else may be.
        if !matches!(note, Note::Granted(_)) {
            self.changed = true;
        }
        match note {
            Note::Submit(submit) => self.submit(submit),
            Note::Cancel(seq) => {
                self.core.cancel(seq);
                if let Some(route) = self.routes.remove(&seq) {
                    self.rate.ended(Instant::now());
                    route.forget();
                }
            }
            Note::Allow(Allow { seq, index, mask }) => self.core.allow(seq, index, mask),
            Note::Flow(Flow::Pause(seq)) => self.core.pause(seq),
            Note::Flow(Flow::Resume(seq)) => self.core.resume(seq),
            Note::Granted(settled) => self.granted(settled),
            Note::Stepped(stepped) => self.stepped(stepped),
            Note::Model(is) => self.model_is(is),
            Note::Drain => {
                self.core.drain();
                self.report.draining();
            }
            Note::Flush => self.core.flush(),
            Note::Cut(Cut(number)) => {
                let cut = self.lose_all("the service is shutting down and its time for running requests is over");
                // Whoever asked may have gone; the rows are ended all the same.
                let _ = number.send(cut);
            }
        }
    }

    fn submit(&mut self, Submit { submit, route }: Submit) {
        if let ModelState::Down(reason) | ModelState::Gone(reason) = &self.model_is {
            return route.lose(reason);
        }
        let (seq, key) = (submit.seq, submit.key);
        match self.core.submit(submit, self.now_us()) {
            Ok(()) => {
                self.report.key(key, &route.series);
                route.tell(Instant::now(), What::Accepted);
                self.routes.insert(seq, route);
            }
            Err(refusal) => {
                let retry_after_s = self.retry_after_s();
                route.end(Instant::now(), What::Refused { refusal, retry_after_s });
            }
        }
    }

    fn granted(&mut self, settled: kv::Settled) {
        self.report.ledger(settled.ledger);
        match self.core.settled(settled, self.now_us()) {
            Turn::Step(step) => {
                self.close_turn();
                self.report.launched(&step);
                self.model.do_send(RunStep(step));
                // Another step may go behind this one.
                self.changed = true;
            }
            Turn::Settle(wants) => self.budget.do_send(Settle(wants)),
            Turn::Idle => self.close_turn(),
        }
    }

    fn close_turn(&mut self) {
        if let Some(since) = self.open_since.take() {
            self.report.planned(since.elapsed());
        }
    }

    fn stepped(&mut self, Stepped { done, memory }: Stepped) {
        self.report.stepped(&done, memory);
        let started = Instant::now();
        let events = self.core.step_done(done, self.now_us());
        self.deliver(events);
        self.report.replied(started.elapsed());
    }

    fn model_is(&mut self, is: ModelIs) {
        match is {
            ModelIs::Lost => {
                self.model.do_send(LossHeard);
                if !matches!(self.model_is, ModelState::Down(_) | ModelState::Gone(_)) {
                    self.model_is = ModelState::Opening;
                }
                self.core.model_lost(self.now_us());
                let now = Instant::now();
                for route in self.routes.values_mut().filter(|route| route.runs) {
                    (route.runs, route.was_lost) = (false, true);
                    route.tell(now, What::Interrupted);
                }
                self.report.lost();
            }
            ModelIs::Down(_) if matches!(self.model_is, ModelState::Gone(_)) => {}
            ModelIs::Down(reason) => {
                let reason = self.unavailable(&reason);
                self.model_is = ModelState::Down(reason);
            }
            ModelIs::Back if matches!(self.model_is, ModelState::Gone(_)) => {}
            ModelIs::Back => {
                self.model_is = ModelState::Here;
                self.report.back();
            }
            // The first reason is the cause; what else stops after it is not.
            ModelIs::Gone(_) if matches!(self.model_is, ModelState::Gone(_)) => {}
            ModelIs::Gone(reason) => {
                let reason = self.unavailable(&reason);
                self.model_is = ModelState::Gone(reason);
            }
        }
    }

    /// Nobody is served until further notice.
    fn unavailable(&mut self, reason: &str) -> String {
        let reason = format!("the model is not available: {reason}");
        // Readiness first: a client that hears of the loss must not find the service ready.
        self.report.gone(&reason);
        self.report.publish();
        self.lose_all(&reason);
        reason
    }

    fn lose_all(&mut self, reason: &str) -> u32 {
        let mut lost = 0;
        for (seq, route) in self.routes.drain() {
            self.core.cancel(seq);
            route.lose(reason);
            lost += 1;
        }
        lost
    }

    fn deliver(&mut self, events: Vec<Event>) {
        let at = Instant::now();
        for event in events {
            self.report.event(&event);
            let (seq, last) = match &event {
                Event::Finished { seq, .. } => (*seq, true),
                Event::Admitted { seq, .. } | Event::Token { seq, .. } | Event::Preempted { seq } | Event::Resumed { seq, .. } => (*seq, false),
            };
            if last {
                self.rate.ended(at);
                if let Some(route) = self.routes.remove(&seq) {
                    route.end(at, What::Event(event));
                }
            } else if let Some(route) = self.routes.get_mut(&seq) {
                match event {
                    Event::Admitted { .. } => {
                        self.report.prompt(route.prompt_tokens);
                        route.runs = true;
                    }
                    Event::Preempted { .. } => route.runs = false,
                    Event::Resumed { .. } => {
                        route.runs = true;
                        if std::mem::take(&mut route.was_lost) {
                            self.report.recovered();
                        }
                    }
                    Event::Token { .. } | Event::Finished { .. } => {}
                }
                route.tell(at, What::Event(event));
            }
        }
    }

    /// The scheduler's invariants: a violation ends a debug build; a release build counts it and goes on.
    fn check(&self) {
        if cfg!(debug_assertions)
            && let Err(violation) = self.core.check()
        {
            panic!("{violation}");
        }
    }

    fn now_us(&self) -> u64 {
        self.epoch.elapsed().as_micros() as u64
    }
}

impl Handler<TakeTurn> for Scheduling {
    type Result = ();
    fn handle(&mut self, _: TakeTurn, _: &mut Self::Context) {
        self.turn();
    }
}

/// Handlers only note.
macro_rules! notes {
    ($($message:ty: $pattern:pat => $note:expr;)*) => {
        $(impl Handler<$message> for Scheduling {
            type Result = ();
            fn handle(&mut self, $pattern: $message, ctx: &mut Self::Context) {
                self.note($note, ctx);
            }
        })*
    };
}

notes! {
    Submit: submit => Note::Submit(submit);
    Allow: allow => Note::Allow(allow);
    Flow: flow => Note::Flow(flow);
    Cancel: Cancel(seq) => Note::Cancel(seq);
    Granted: Granted(settled) => Note::Granted(settled);
    Stepped: stepped => Note::Stepped(stepped);
    ModelIs: is => Note::Model(is);
    Drain: Drain => Note::Drain;
    Flush: Flush => Note::Flush;
    Cut: cut => Note::Cut(cut);
}
