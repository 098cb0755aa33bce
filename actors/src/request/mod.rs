//! The Request actor: one request's text, usage and timings, from the prompt to the last word. It lives where its client is
//! served, and speaks ids to everyone else.

mod ends;
mod flow;
mod guiding;

pub(crate) use flow::Caught;

use crate::ask::{Ask, Event, Failure, Finish, Form, Key, Params, Prompt};
use crate::check::{self, Bounds, Checked};
use crate::clock::Clock;
use crate::messages::{Cancel, Delta, Route, Submit, What};
use crate::prompt;
use crate::rows::{Board, Line, Phase, RowStats};
use crate::scheduling::Scheduling;
use crate::service::unavailable;
use crate::speech::Speech;
use crate::trace::Trace;
use crate::writer::{Writer, Written};
use actix::{Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, WrapFuture};
use grammar::Guide;
use kv::{Logprobs, Mask, Sampling, SeqId};
use metrics::{KeySeries, Metrics, Refusal};
use models::text::Text;
use scheduler::{Counts, KeyId, Reason, Wishes};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Texts up to this size are tokenized in place: a few milliseconds at most. Longer ones would stall the other streams of the
/// same HTTP worker, and go to a thread of the blocking pool.
const INLINE_BYTES_MAX: usize = 4096;

/// Seeds that we choose stay below this, so that a client whose JSON numbers are doubles can send them back.
const SEED_BITS: u32 = 53;

/// What all requests share.
pub(crate) struct Desk {
    /// The id that clients know it by.
    pub(crate) model: String,
    pub(crate) text: Arc<Text>,
    pub(crate) speech: Speech,
    pub(crate) bounds: Bounds,
    pub(crate) stop_ids: Arc<[u32]>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) scheduling: Addr<Scheduling>,
    pub(crate) board: Arc<Board>,
    /// A permit for each long prompt that is being tokenized.
    pub(crate) aside: Arc<Semaphore>,
}

/// From the client's end: it was dropped before the last word.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Left;

pub(crate) struct Request {
    desk: Arc<Desk>,
    id: String,
    answer: String,
    key: Key,
    series: KeySeries,
    /// Taken when the actor starts.
    prompt: Option<Prompt>,
    params: Params,
    /// It is a chat, not a text to be continued.
    chat: bool,
    form: Form,
    /// Of the answers that one request wants, None for all but the first: how many.
    n: Option<u32>,
    seed: u64,
    events: mpsc::Sender<Event>,
    clock: Clock,
    seq: SeqId,
    row: Option<Row>,
    counts: Counts,
    /// The way through its grammar, unless it is away with a token.
    guide: Option<Guide>,
    /// Its row is paused: the client has not read what it was told. The answer's end takes it back.
    paused: Arc<AtomicBool>,
    /// Times it was paused.
    pauses: u32,
    /// Times the row was admitted again: for each preemption once, and for each loss of the model.
    resumed: u32,
    trace: Trace,
    /// It failed for this reason.
    why: Option<String>,
    ended: bool,
    /// They go back when the actor is gone, and not before.
    _permits: Permits,
}

/// Of the house, and of the key.
pub(crate) type Permits = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

/// What is worked out before submission.
struct Prepared {
    checked: Checked,
    in_reasoning: bool,
    guided: Option<(Guide, Mask)>,
}

/// What exists from submission on.
struct Row {
    ticket: Ticket,
    writer: Writer,
    line: Line,
}

/// A row at the scheduler. Dropping it cancels the row unless the scheduler has ended it: so a client that leaves, a stop
/// string, and a panic here all free the row within a step.
struct Ticket {
    seq: SeqId,
    scheduling: Addr<Scheduling>,
    ended: bool,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.ended {
            self.scheduling.do_send(Cancel(self.seq));
        }
    }
}

impl Request {
    pub(crate) fn new(desk: Arc<Desk>, seq: SeqId, ask: Ask, n: Option<u32>, events: mpsc::Sender<Event>, permits: Permits) -> Request {
        let seed = ask.params.seed.unwrap_or_else(random_seed);
        let trace = Trace::begin(&desk.model, &ask.answer, &ask.prompt, &ask.params, seed);
        Request {
            series: desk.metrics.key(&ask.key.name),
            desk,
            id: ask.id,
            answer: ask.answer,
            key: ask.key,
            chat: matches!(ask.prompt, Prompt::Chat { .. }),
            prompt: Some(ask.prompt),
            form: ask.form,
            n,
            params: ask.params,
            seed,
            events,
            clock: Clock::new(Instant::now()),
            seq,
            row: None,
            counts: Counts::default(),
            guide: None,
            paused: Arc::default(),
            pauses: 0,
            resumed: 0,
            trace,
            why: None,
            ended: false,
            _permits: permits,
        }
    }

    fn submit(&mut self, Prepared { checked, in_reasoning, guided }: Prepared, ctx: &mut Context<Self>) {
        let desk = &self.desk;
        let (guide, mask) = guided.unzip();
        self.guide = guide;
        let prompt_tokens = checked.prompt.len() as u32;
        self.counts.prompt = prompt_tokens;
        let submit = scheduler::Submit {
            seq: self.seq,
            key: KeyId(self.key.number),
            weight: self.key.weight,
            priority: self.params.priority,
            prompt: checked.prompt,
            max_tokens: checked.max_tokens,
            min_tokens: self.params.min_tokens,
            stop_ids: Arc::clone(&desk.stop_ids),
            ignore_eos: self.params.ignore_eos,
            sampling: Sampling {
                temperature: self.params.temperature,
                top_p: self.params.top_p,
                top_k: self.params.top_k,
                min_p: self.params.min_p,
                seed: self.seed,
            },
            wishes: Wishes {
                bias: std::mem::take(&mut self.params.logit_bias),
                presence: self.params.presence_penalty,
                frequency: self.params.frequency_penalty,
                repetition: self.params.repetition_penalty,
                logprobs: self.params.logprobs,
            },
            mask,
        };
        let stop = std::mem::take(&mut self.params.stop);
        let scheduling = desk.scheduling.clone();
        let route = Route::new(ctx.address(), prompt_tokens, self.series.clone());
        let line = RowStats {
            row: self.seq.0,
            id: self.id.clone(),
            key: self.key.name.to_string(),
            phase: Phase::Queued,
            prompt_tokens,
            cached_tokens: 0,
            prefilled_tokens: 0,
            generated_tokens: 0,
            max_tokens: submit.max_tokens,
            preemptions: 0,
            came: self.clock.asked(),
        };
        scheduling.do_send(Submit { submit, route });
        let reader = desk.speech.reader(self.chat, &self.form, in_reasoning);
        self.row = Some(Row {
            ticket: Ticket { seq: self.seq, scheduling, ended: false },
            writer: Writer::new(&desk.text, desk.speech.marks(self.chat), stop, reader),
            line: desk.board.put(self.seq, line),
        });
    }

    /// Changes this row's line on the board.
    fn show(&self, change: impl FnOnce(&mut RowStats)) {
        if let Some(row) = &self.row {
            row.line.note(change);
        }
    }

    fn happened(&mut self, event: scheduler::Event, at: Instant, ctx: &mut Context<Self>) {
        match event {
            scheduler::Event::Admitted { cached, .. } => {
                self.clock.admitted(at);
                self.counts.cached = cached;
                self.trace.admitted(cached);
                self.desk.metrics.prefix_lookup(self.counts.prompt, cached);
                self.series.admitted(self.clock.since_asked(at));
                self.show(|row| (row.phase, row.cached_tokens, row.prefilled_tokens) = (Phase::Prefill, cached, cached));
            }
            scheduler::Event::Token { token, index, logprobs, .. } => self.token(token, index, logprobs.as_deref(), at, ctx),
            scheduler::Event::Preempted { .. } => {
                self.counts.preemptions += 1;
                self.trace.preempted();
                self.show(|row| {
                    (row.phase, row.prefilled_tokens) = (Phase::Queued, 0);
                    row.preemptions += 1;
                });
            }
            scheduler::Event::Resumed { recomputed, .. } => {
                self.resumed += 1;
                self.counts.restarts = self.resumed.saturating_sub(self.counts.preemptions);
                self.trace.resumed(recomputed);
                self.show(|row| row.phase = Phase::Prefill);
            }
            scheduler::Event::Finished { reason, stop_token, counts, .. } => {
                if stop_token {
                    self.generated(at);
                }
                self.counts = counts;
                self.finished(reason, at, ctx);
            }
        }
    }

    /// A token that is part of the answer.
    fn token(&mut self, token: u32, index: u32, logprobs: Option<&Logprobs>, at: Instant, ctx: &mut Context<Self>) {
        self.generated(at);
        // First of all: while the mask of the next draw is being made, the row waits.
        self.follow(token, index, ctx);
        let Some(row) = &mut self.row else { return };
        let written = row.writer.push(token, logprobs);
        let stop = written.stopped;
        self.say(written, ctx);
        if stop.is_some() {
            self.done(Finish::Stop, stop, at, ctx);
        }
    }

    /// One more token was generated for this row.
    fn generated(&mut self, at: Instant) {
        self.counts.generated += 1;
        self.show(|row| {
            (row.phase, row.prefilled_tokens) = (Phase::Decode, row.prompt_tokens);
            row.generated_tokens += 1;
        });
        self.series.token();
        self.key.tokens.fetch_add(1, Ordering::Relaxed);
        match self.clock.token(at) {
            Some(since_last) => self.desk.metrics.next_token(since_last),
            None => {
                self.trace.first_token();
                self.desk.metrics.prefilled(self.counts.prompt, self.counts.cached);
                self.series.prefilled(self.counts.prompt);
                self.key.tokens.fetch_add(u64::from(self.counts.prompt), Ordering::Relaxed);
                self.desk.metrics.first_token(self.clock.since_asked(at));
            }
        }
    }

    /// The scheduler's last word.
    fn finished(&mut self, reason: Reason, at: Instant, ctx: &mut Context<Self>) {
        let Some(mut row) = self.row.take() else { return };
        row.ticket.ended = true;
        if let Reason::Fault(fault) = reason {
            let message = match fault {
                kv::RowFault::NotFinite => "the model's output for this request was not finite".into(),
            };
            return self.fail(Failure::Fault { message }, at, ctx);
        }
        let written = row.writer.finish(reason == Reason::Length);
        let stop = written.stopped;
        let finish = match reason {
            Reason::Length if stop.is_none() => Finish::Length,
            _ if row.writer.has_called() => Finish::Calls,
            _ => Finish::Stop,
        };
        self.say(written, ctx);
        self.done(finish, stop, at, ctx);
    }

    fn say(&mut self, Written { pieces, tokens, logprobs, .. }: Written, ctx: &mut Context<Self>) {
        if !pieces.is_empty() {
            self.send(Event::Said { pieces, tokens, logprobs }, ctx);
            self.pause_if_unread(ctx);
        }
    }
}

impl Actor for Request {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let Some(prompt) = self.prompt.take() else { return };
        let (desk, params, form, chat) = (Arc::clone(&self.desk), self.params.clone(), self.form.clone(), self.chat);
        // A grammar takes milliseconds to put together.
        let inline = prompt::weight_bytes(&prompt) <= INLINE_BYTES_MAX && form == Form::default();
        let prepare = move || {
            let param = prompt::param(&prompt);
            let read = prompt::read(&desk.text, desk.speech.reasoning(), prompt, desk.bounds.context)?;
            let checked = check::check(read.ids, param, &params, desk.bounds)?;
            let guided = desk.speech.guide(&desk.text, chat, &form, read.in_reasoning)?;
            Ok(Prepared { checked, in_reasoning: read.in_reasoning, guided })
        };
        if inline {
            return self.prepared(prepare(), ctx);
        }
        let turns = Arc::clone(&self.desk.aside);
        let aside = async move {
            // The semaphore is never closed; were it, the prompt would be tokenized without a turn.
            let _turn = turns.acquire().await;
            tokio::task::spawn_blocking(prepare).await
        };
        ctx.spawn(aside.into_actor(self).map(|outcome, request, ctx| {
            let outcome = outcome.unwrap_or_else(|_panic| {
                let message = "the prompt could not be tokenized".into();
                Err(Failure::Fault { message })
            });
            request.prepared(outcome, ctx);
        }));
    }
}

impl Request {
    fn prepared(&mut self, outcome: Result<Prepared, Failure>, ctx: &mut Context<Self>) {
        match outcome {
            Ok(prepared) => self.submit(prepared, ctx),
            Err(failure @ Failure::Invalid { code, .. }) => {
                let reason = if code == check::NEVER_FITS { Refusal::NeverFits } else { Refusal::Invalid };
                self.refuse(failure, reason, ctx);
            }
            Err(failure) => self.fail(failure, Instant::now(), ctx),
        }
    }
}

impl Handler<Delta> for Request {
    type Result = ();

    fn handle(&mut self, Delta { at, what }: Delta, ctx: &mut Self::Context) {
        if self.ended {
            return;
        }
        match what {
            What::Accepted => {
                let began = Event::Began { prompt_tokens: self.counts.prompt, seed: self.seed };
                self.send(began, ctx);
            }
            What::Event(event) => self.happened(event, at, ctx),
            What::Interrupted => {
                self.trace.worker_lost();
                self.show(|row| (row.phase, row.prefilled_tokens) = (Phase::Queued, 0));
            }
            What::Refused { refusal, retry_after_s } => self.refused(refusal, retry_after_s, ctx),
            What::Lost(reason) => {
                if let Some(row) = &mut self.row {
                    row.ticket.ended = true;
                }
                self.fail(unavailable(reason), at, ctx);
            }
        }
    }
}

impl Handler<Left> for Request {
    type Result = ();

    fn handle(&mut self, _: Left, ctx: &mut Self::Context) {
        self.left(ctx);
    }
}

/// The process's random keys, hashed anew each time: no clock, whose millisecond two rows may share.
fn random_seed() -> u64 {
    RandomState::new().hash_one(()) >> (u64::BITS - SEED_BITS)
}
