//! The Model actor: it owns the model's life, passes steps in and results out, watches that they come, and when the life is lost begins
//! another.

use crate::deaths::Deaths;
use crate::home::{End, Life, Saying};
use crate::messages::{LossHeard, ModelIs, RunStep, Stepped};
use crate::pace::Pace;
use crate::room::Room;
use crate::scheduling::Scheduling;
use crate::stats::{Stats, WorkerState, WorkerStats};
use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use kv::{SeqId, StepDone, StepId};
use metrics::{Metrics, WorkerCause};
use models::engine::{EngineError, EngineInfo, Memory};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) struct Model {
    room: Room,
    state: State,
    /// Of the current life; None between lives.
    life: Option<Life>,
    /// The current life's. What a former one still says is not heard.
    number: u32,
    /// What the first opening gave, and put up. A later one must give the same, or tables and limits would be wrong.
    up: Option<Up>,
    flights: VecDeque<Flight>,
    pace: Pace,
    deaths: Deaths,
    /// Losses that Scheduler has not heard of yet. Steps that it sends until then are of a former life.
    unheard: u32,
    last_look: Instant,
    worker: WorkerStats,
}

struct Up {
    info: EngineInfo,
    scheduling: Addr<Scheduling>,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The life has begun, and loads the model.
    Opening {
        since: Instant,
    },
    Serving,
    /// The life was given up and killed; its last word is awaited, and after that the pause before the next one.
    Ending {
        since: Instant,
        pause: Duration,
    },
    /// Between two lives.
    Pausing,
    /// There will be no other life.
    Gone,
}

/// A step at the engine.
struct Flight {
    id: StepId,
    tokens: u32,
    /// The rows that draw, in the step's order.
    draws: Vec<SeqId>,
    /// When it became the oldest.
    since: Instant,
}

/// From the life of that number.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Said {
    pub(crate) number: u32,
    pub(crate) what: Saying,
}

impl Actor for Model {
    type Context = Context<Self>;
}

impl Model {
    /// Starts the actor and its watch, and the first life. The timer is made here and not in `started`: an actor that goes before its first
    /// turn has `started` called while it is dropped, when there is no reactor left to make a timer, and that would panic.
    pub(crate) fn put_up(room: Room) -> Addr<Model> {
        let floor = room.options.step_deadline;
        let worker = room.publish.borrow().worker.clone();
        let look = (floor / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        Model::create(|ctx| {
            ctx.run_interval(look, move |model, ctx| model.watch(look, Instant::now(), ctx));
            let mut model = Model {
                state: State::Pausing,
                life: None,
                number: 0,
                up: None,
                flights: VecDeque::new(),
                pace: Pace::new(floor),
                deaths: Deaths::new(room.options.deaths_max),
                unheard: 0,
                last_look: Instant::now(),
                worker,
                room,
            };
            model.begin(ctx);
            model
        })
    }

    /// Begins a life.
    fn begin(&mut self, ctx: &mut Context<Self>) {
        self.number += 1;
        let (number, model) = (self.number, ctx.address());
        let ear = Arc::new(move |what| model.do_send(Said { number, what }));
        self.pace.new_life();
        let blocks = self.up.as_ref().map(|up| up.info.blocks);
        match self.room.home.begin(blocks, ear) {
            Ok(life) => {
                self.worker.pid = life.pid();
                self.life = Some(life);
                self.state = State::Opening { since: Instant::now() };
                self.show(WorkerState::Loading);
            }
            Err(error) => self.died(WorkerCause::Exit, format!("it cannot be started: {error}"), ctx),
        }
    }

    fn opened(&mut self, info: EngineInfo, ctx: &mut Context<Self>) {
        if let State::Opening { since } = self.state {
            self.pace.loaded(since.elapsed());
        }
        self.state = State::Serving;
        let Some(up) = &self.up else {
            let (scheduling, metrics) = self.room.put_up(&info, ctx.address());
            // Lives that were lost before there was anything to count them.
            for (cause, times) in self.worker.losses() {
                (0..times).for_each(|_| metrics.worker_lost(cause));
            }
            self.up = Some(Up { info, scheduling, metrics });
            return self.show(WorkerState::Ready);
        };
        if info.files != up.info.files {
            return self.gone("it has changed since it was first opened".into());
        }
        if info != up.info {
            // A device that is gone may be back next time.
            let what = |info: &EngineInfo| format!("{} in {}, {} blocks", info.device, info.dtype, info.blocks);
            let reason = format!("it was opened in another way than before: {} and not {}", what(&info), what(&up.info));
            return self.give_up(WorkerCause::Exit, reason);
        }
        tracing::info!("the model is back");
        up.scheduling.do_send(ModelIs::Back);
        self.show(WorkerState::Ready);
    }

    /// The steps at the engine, and the life itself, are looked at in turn.
    fn watch(&mut self, look: Duration, now: Instant, ctx: &mut Context<Self>) {
        let late = now.saturating_duration_since(self.last_look).saturating_sub(2 * look);
        self.last_look = now;
        if !late.is_zero() {
            // This process stood still itself, and the other one maybe with it.
            self.flights.iter_mut().for_each(|flight| flight.since += late);
            if let State::Opening { since } = &mut self.state {
                *since += late;
            }
        }
        match (self.state, self.flights.front()) {
            (State::Opening { since }, _) => {
                let deadline = self.pace.load_deadline(self.room.options.load_deadline);
                if now.saturating_duration_since(since) >= deadline {
                    self.hangs(format!("it has not been loaded within {} s", deadline.as_secs()));
                }
            }
            (State::Serving, Some(flight)) => {
                let (step, tokens) = (flight.id.0, flight.tokens);
                let (deadline, took) = (self.pace.deadline(tokens), now.saturating_duration_since(flight.since));
                self.worker.step_deadline_ms = deadline.as_millis() as u64;
                self.worker.step_age_ms = took.as_millis() as u64;
                self.publish();
                if took >= deadline {
                    self.hangs(format!("step {step}, of {tokens} tokens, has not ended within {:.1} s", deadline.as_secs_f64()));
                }
            }
            // It may be held in the kernel for ever, and rows wait. From here on it is the system's.
            (State::Ending { since, .. }, _) if now.saturating_duration_since(since) >= self.room.options.step_deadline => {
                tracing::error!(worker = self.worker.pid, "a worker that was killed does not end: another one is started beside it");
                // What it still says is of a life that is over.
                self.number += 1;
                self.died(WorkerCause::Exit, String::new(), ctx);
            }
            _ => {}
        }
    }

    /// No answer within the deadline. A process is killed for it; a thread hangs inside the engine and cannot be ended, so it cannot be
    /// replaced either.
    fn hangs(&mut self, reason: String) {
        match self.state {
            State::Opening { .. } => self.pace.load_hung(),
            _ => self.pace.hung(),
        }
        self.give_up(WorkerCause::Hang, reason);
    }

    /// Ends a life that goes on.
    fn give_up(&mut self, cause: WorkerCause, reason: String) {
        match &self.life {
            Some(life) if life.pid().is_some() => {
                let pause = self.lost(cause, reason);
                self.state = State::Ending { since: Instant::now(), pause };
                if let Some(life) = &self.life {
                    life.kill();
                }
            }
            _ => self.gone(reason),
        }
    }

    /// A life is over, and nothing is left of it.
    fn died(&mut self, cause: WorkerCause, reason: String, ctx: &mut Context<Self>) {
        let pause = match self.state {
            // It was killed, and that is told already.
            State::Ending { pause, .. } => pause,
            _ => self.lost(cause, reason),
        };
        self.life = None;
        self.worker.pid = None;
        self.state = State::Pausing;
        self.publish();
        if pause.is_zero() {
            return self.begin(ctx);
        }
        ctx.run_later(pause, |model, ctx| {
            if model.state == State::Pausing {
                model.begin(ctx);
            }
        });
    }

    /// Tells of a loss, and how long to wait before another life.
    fn lost(&mut self, cause: WorkerCause, reason: String) -> Duration {
        let now = Instant::now();
        let pause = self.deaths.died(now);
        tracing::warn!(cause = cause.as_str(), %reason, pause_s = pause.as_secs(), "the model is lost and will be opened again");
        // Clients hear of it, and /stats shows it: where files lie is nobody's business there.
        let reason = without_paths(&reason);
        let down = self.deaths.too_many().then(|| format!("{}, at last because: {reason}", self.deaths.many()));
        self.flights.clear();
        self.worker.lost(cause, reason);
        if let Some(Up { scheduling, metrics, .. }) = &self.up {
            metrics.worker_lost(cause);
            scheduling.do_send(ModelIs::Lost);
            self.unheard += 1;
            if let Some(reason) = &down {
                scheduling.do_send(ModelIs::Down(reason.clone()));
            }
        }
        match down {
            Some(reason) => {
                tracing::error!(%reason, "requests are refused until the model is back");
                self.worker.down = Some(reason);
                self.show(WorkerState::Down);
            }
            None => self.show(WorkerState::Lost),
        }
        pause
    }

    fn gone(&mut self, reason: String) {
        tracing::error!(%reason, "the model is lost for good");
        let reason = without_paths(&reason);
        self.state = State::Gone;
        self.life = None;
        // What it still says is of a life that is over.
        self.number += 1;
        self.flights.clear();
        self.worker.pid = None;
        self.worker.down = Some(reason.clone());
        self.show(WorkerState::Down);
        self.room.tell(Err(EngineError::Step(reason.clone())));
        if let Some(up) = &self.up {
            up.scheduling.do_send(ModelIs::Gone(reason));
        }
    }

    fn ended(&mut self, end: End, ctx: &mut Context<Self>) {
        match end {
            End::Died { cause, reason } => self.died(cause, reason, ctx),
            // The first time whoever starts the service wants to know what is wrong. Later it was right before, and may be again.
            End::Refused(error) if self.up.is_none() => {
                self.state = State::Gone;
                self.life = None;
                self.worker.down = Some(error.to_string());
                self.show(WorkerState::Down);
                self.room.tell(Err(error));
            }
            // Clients hear of the reason, and where files lie is not their business.
            End::Refused(error) => {
                tracing::error!(%error, "the model cannot be opened again");
                self.died(WorkerCause::Exit, "it cannot be opened as it could before".into(), ctx);
            }
        }
    }

    /// Results of a step. A life that makes no sense is over.
    fn done(&mut self, done: StepDone, memory: Memory) {
        let Some(up) = &self.up else { return };
        if let Err(why) = fits(&done, self.flights.front(), up.info.vocab) {
            return self.give_up(WorkerCause::Ipc, why);
        }
        let (now, flight) = (Instant::now(), self.flights.pop_front());
        if let Some(flight) = flight {
            // Neither a wait behind another step nor a message that was late is the step's own time.
            let own = Duration::from_micros(done.micros).min(now.saturating_duration_since(flight.since));
            self.pace.done(flight.tokens, own);
        }
        self.deaths.progress();
        // It waited behind the one before it.
        if let Some(next) = self.flights.front_mut() {
            next.since = now;
        }
        up.scheduling.do_send(Stepped { done, memory });
        if self.flights.is_empty() && (self.worker.step_age_ms, self.worker.step_deadline_ms) != (0, 0) {
            self.publish();
        }
    }

    fn show(&mut self, state: WorkerState) {
        self.worker.state = state;
        if state == WorkerState::Ready {
            self.worker.down = None;
        }
        self.publish();
    }

    fn publish(&mut self) {
        if self.flights.is_empty() {
            (self.worker.step_age_ms, self.worker.step_deadline_ms) = (0, 0);
        }
        let worker = &self.worker;
        self.room.publish.send_if_modified(|stats: &mut Arc<Stats>| {
            let new = stats.worker != *worker;
            if new {
                Arc::make_mut(stats).worker = worker.clone();
            }
            new
        });
    }
}

/// Of a path only its last part is left.
fn without_paths(text: &str) -> String {
    let short = |word: &'_ str| word.rsplit('/').find(|part| !part.is_empty()).unwrap_or(word).to_owned();
    text.split(' ').map(short).collect::<Vec<String>>().join(" ")
}

/// Whether results are those of the step that was sent first, for the rows that drew, with tokens that there are.
fn fits(done: &StepDone, oldest: Option<&Flight>, vocab: u32) -> Result<(), String> {
    let Some(flight) = oldest.filter(|flight| flight.id == done.id) else {
        return Err(format!("the worker answered step {}, which is not the oldest at it", done.id.0));
    };
    if !done.results.iter().map(|result| result.seq).eq(flight.draws.iter().copied()) {
        return Err(format!("the worker's results of step {} are not of the rows that drew", done.id.0));
    }
    match done.results.iter().filter_map(|result| result.token.as_ref().ok()).find(|token| **token >= vocab) {
        Some(token) => Err(format!("the worker drew token {token} in step {}; the vocabulary has {vocab}", done.id.0)),
        None => Ok(()),
    }
}

/// Without this actor no step can run: the rows must hear of it instead of waiting.
impl Drop for Model {
    fn drop(&mut self) {
        let reason = "its keeper stopped after an internal fault";
        if self.state != State::Gone {
            self.worker.pid = None;
            self.worker.down.get_or_insert_with(|| reason.into());
            self.show(WorkerState::Down);
        }
        if let Some(up) = &self.up {
            up.scheduling.do_send(ModelIs::Gone(reason.into()));
        }
    }
}

impl Handler<RunStep> for Model {
    type Result = ();

    fn handle(&mut self, RunStep(step): RunStep, _: &mut Self::Context) {
        // A step that was on its way when its life ended: the loss is already reported, and the next life's pool knows nothing of it.
        if self.state != State::Serving || self.unheard > 0 {
            return;
        }
        let Some(life) = &self.life else { return };
        let draws = step.rows.iter().filter(|row| row.draw.is_some()).map(|row| row.seq).collect();
        self.flights.push_back(Flight { id: step.id, tokens: step.tokens(), draws, since: Instant::now() });
        life.step(step);
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

    fn handle(&mut self, Said { number, what }: Said, ctx: &mut Self::Context) {
        if number != self.number {
            return;
        }
        match (what, self.state) {
            (Saying::Ended(end), _) => self.ended(end, ctx),
            (Saying::Dying(End::Died { cause, reason }), State::Opening { .. } | State::Serving) => self.give_up(cause, reason),
            (Saying::Dying(End::Refused(error)), State::Opening { .. } | State::Serving) => self.give_up(WorkerCause::Exit, error.to_string()),
            // Given up: whatever it says now but its end is too late.
            (_, State::Ending { .. } | State::Pausing | State::Gone) => {}
            (Saying::Opened(info), State::Opening { .. }) => self.opened(info, ctx),
            (Saying::Opened(_), State::Serving) => self.give_up(WorkerCause::Ipc, "the worker opened the model twice".into()),
            (Saying::Done(done, memory), _) => self.done(done, memory),
        }
    }
}
