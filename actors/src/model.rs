//! The Model actor: it owns the model's thread, passes steps in and results out, and opens the model again when it is lost.

use crate::host;
use crate::messages::{LossHeard, ModelIs, RunStep, Stepped};
use crate::scheduling::Scheduling;
use crate::start::Opener;
use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use crossbeam::channel::Sender;
use kv::{Step, StepId};
use models::engine::{EngineError, EngineInfo};
use models::worker::FromWorker;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// This many deaths within [`DEATHS_WINDOW`] and the model stays down: it would only die again.
const DEATHS_MAX: usize = 3;
const DEATHS_WINDOW: Duration = Duration::from_secs(60);

pub(crate) struct Model {
    pub(crate) scheduling: Addr<Scheduling>,
    pub(crate) opener: Arc<Opener>,
    /// What the first opening gave; a later one must give the same, or tables and limits would be wrong.
    pub(crate) info: EngineInfo,
    /// To the thread of this life; None while there is no engine.
    pub(crate) steps: Option<Sender<Step>>,
    /// Number of the current life. What a former life still says is not heard.
    pub(crate) life: u32,
    /// The thread is opening the model: steps wait in the channel, and their deadline has not begun.
    pub(crate) opening: bool,
    pub(crate) step_deadline: Duration,
    pub(crate) in_flight: VecDeque<(StepId, Instant)>,
    pub(crate) deaths: VecDeque<Instant>,
    /// Losses that Scheduler has not heard of yet. Steps that it sends until then are of a former life.
    pub(crate) unheard: u32,
}

/// From the model's thread.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Said {
    pub(crate) life: u32,
    pub(crate) what: Saying,
}

pub(crate) enum Saying {
    Opened(Result<EngineInfo, EngineError>),
    Worker(FromWorker),
}

impl Actor for Model {
    type Context = Context<Self>;
}

impl Model {
    /// Starts the actor and its watch. The timer is made here and not in `started`: an actor that goes before its first turn has
    /// `started` called while it is dropped, when there is no reactor left to make a timer, and that would panic.
    pub(crate) fn put_up(self) -> Addr<Model> {
        let look = (self.step_deadline / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        Model::create(|ctx| {
            ctx.run_interval(look, |model, _| model.watch(Instant::now()));
            self
        })
    }

    /// A step over its deadline: the thread hangs inside the engine and cannot be stopped, so it cannot be replaced either.
    fn watch(&mut self, now: Instant) {
        let Some(&(step, since)) = self.in_flight.front() else {
            return;
        };
        if self.opening {
            return;
        }
        let took = now.saturating_duration_since(since);
        if took >= self.step_deadline {
            self.gone(format!("step {} has not ended after {} s", step.0, took.as_secs()));
        }
    }

    /// The oldest step has run since now at the earliest: it waited behind the one before it, or for the model.
    fn front_begins(&mut self) {
        if let Some((_, since)) = self.in_flight.front_mut() {
            *since = Instant::now();
        }
    }

    fn gone(&mut self, reason: String) {
        tracing::error!(%reason, "the model is lost for good");
        self.bury();
        self.scheduling.do_send(ModelIs::Gone(reason));
    }

    /// Ends this life: its thread hears that no step comes, and is not listened to any more.
    fn bury(&mut self) {
        self.steps = None;
        self.life += 1;
        self.in_flight.clear();
    }

    fn died(&mut self, reason: String, ctx: &mut Context<Self>) {
        let now = Instant::now();
        self.deaths.retain(|&at| now.saturating_duration_since(at) < DEATHS_WINDOW);
        self.deaths.push_back(now);
        if self.deaths.len() >= DEATHS_MAX {
            return self.gone(format!("it was lost {DEATHS_MAX} times within {} s, at last because: {reason}", DEATHS_WINDOW.as_secs()));
        }
        tracing::warn!(%reason, "the model is lost and is being opened again");
        self.bury();
        self.scheduling.do_send(ModelIs::Lost(reason));
        self.unheard += 1;
        let (steps, received) = crossbeam::channel::unbounded();
        let (life, model) = (self.life, ctx.address());
        let opened = move |info: Result<EngineInfo, EngineError>| {
            let what = Saying::Opened(info);
            model.do_send(Said { life, what });
            Some(said_by(life, model))
        };
        match host::spawn(Arc::clone(&self.opener), received, opened) {
            Ok(()) => {
                self.steps = Some(steps);
                self.opening = true;
            }
            Err(error) => self.gone(error.to_string()),
        }
    }

    fn opened(&mut self, info: Result<EngineInfo, EngineError>) {
        self.opening = false;
        self.front_begins();
        match info {
            Ok(info) if info == self.info => self.scheduling.do_send(ModelIs::Back),
            Ok(_) => self.gone("the model has changed since it was first opened".into()),
            Err(error) => self.gone(format!("it could not be opened again: {error}")),
        }
    }
}

/// Without this actor no step can run: the rows must hear of it instead of waiting.
impl Drop for Model {
    fn drop(&mut self) {
        let reason = "its keeper stopped after an internal fault";
        self.scheduling.do_send(ModelIs::Gone(reason.into()));
    }
}

/// Passes the worker loop's messages to the actor, signed with the life that says them.
pub(crate) fn said_by(life: u32, model: Addr<Model>) -> host::Out {
    Box::new(move |message| {
        let what = Saying::Worker(message);
        model.do_send(Said { life, what });
    })
}

impl Handler<RunStep> for Model {
    type Result = ();

    fn handle(&mut self, RunStep(step): RunStep, _: &mut Self::Context) {
        // A step that was on its way when its life ended: the loss is already reported, and the next life's pool knows nothing of it.
        let Some(steps) = self.steps.as_ref().filter(|_| self.unheard == 0) else { return };
        let id = step.id;
        // A disconnected thread has said why it ended, or is about to: that message is what counts.
        if steps.send(step).is_ok() {
            self.in_flight.push_back((id, Instant::now()));
        }
    }
}

impl Handler<LossHeard> for Model {
    type Result = ();

    fn handle(&mut self, LossHeard: LossHeard, _: &mut Self::Context) {
        self.unheard -= 1;
    }
}

impl Handler<Said> for Model {
    type Result = ();

    fn handle(&mut self, Said { life, what }: Said, ctx: &mut Self::Context) {
        if life != self.life {
            return;
        }
        match what {
            Saying::Opened(info) => self.opened(info),
            Saying::Worker(FromWorker::Failed(error)) => self.died(error.to_string(), ctx),
            Saying::Worker(FromWorker::Done(done, memory)) => {
                self.in_flight.pop_front();
                self.front_begins();
                self.scheduling.do_send(Stepped { done, memory });
            }
        }
    }
}
