//! The Request actor: one request's text, usage and timings, from the prompt to the last word. It lives where its client is
//! served, and speaks ids to everyone else.

use crate::ask::{Ask, Event, Failure, Finish, Key, Params, Prompt, Usage};
use crate::check::{self, Bounds, Checked};
use crate::clock::Clock;
use crate::messages::{Cancel, Delta, Route, Submit, What};
use crate::prompt;
use crate::rows::{Board, Line, Phase, RowStats};
use crate::scheduling::Scheduling;
use crate::service::unavailable;
use crate::trace::Trace;
use crate::writer::{Writer, Written};
use actix::{Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, WrapFuture};
use kv::{Sampling, SeqId};
use metrics::{DisconnectPhase, FinishReason, KeySeries, Metrics, Refusal, RequestDone};
use models::text::Text;
use scheduler::{Counts, KeyId, Reason, Wishes};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
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
    seed: u64,
    events: mpsc::Sender<Event>,
    clock: Clock,
    seq: SeqId,
    row: Option<Row>,
    counts: Counts,
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
    pub(crate) fn new(desk: Arc<Desk>, seq: SeqId, ask: Ask, events: mpsc::Sender<Event>, permits: Permits) -> Request {
        let seed = ask.params.seed.unwrap_or_else(random_seed);
        let trace = Trace::begin(&desk.model, &ask.answer, &ask.prompt, &ask.params, seed);
        Request {
            series: desk.metrics.key(&ask.key.name),
            desk,
            id: ask.id,
            answer: ask.answer,
            key: ask.key,
            prompt: Some(ask.prompt),
            params: ask.params,
            seed,
            events,
            clock: Clock::new(Instant::now()),
            seq,
            row: None,
            counts: Counts::default(),
            resumed: 0,
            trace,
            why: None,
            ended: false,
            _permits: permits,
        }
    }

    fn submit(&mut self, checked: Checked, ctx: &mut Context<Self>) {
        let desk = &self.desk;
        let prompt_tokens = checked.prompt.len() as u32;
        self.counts.prompt = prompt_tokens;
        let submit = scheduler::Submit {
            seq: self.seq,
            key: KeyId(self.key.number),
            weight: self.key.weight,
            priority: 0,
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
            wishes: Wishes::default(),
            mask: None,
        };
        let stop = std::mem::take(&mut self.params.stop);
        let scheduling = desk.scheduling.clone();
        let route = Route::new(ctx.address(), prompt_tokens, self.series.clone());
        let line = RowStats {
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
        self.row = Some(Row {
            ticket: Ticket { seq: self.seq, scheduling, ended: false },
            writer: Writer::new(desk.text.detokenizer(), stop),
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
                self.series.admitted(self.clock.queue(at));
                self.show(|row| (row.phase, row.cached_tokens, row.prefilled_tokens) = (Phase::Prefill, cached, cached));
            }
            scheduler::Event::Token { token, .. } => {
                self.generated(at);
                if let Some(row) = &mut self.row {
                    let written = row.writer.push(token);
                    let stopped = written.stopped;
                    self.say(written, ctx);
                    if stopped {
                        self.done(Finish::Stop, at, ctx);
                    }
                }
            }
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
        let written = row.writer.finish();
        let finish = match reason {
            Reason::Length if !written.stopped => Finish::Length,
            _ => Finish::Stop,
        };
        self.say(written, ctx);
        self.done(finish, at, ctx);
    }

    fn say(&mut self, Written { text, tokens, .. }: Written, ctx: &mut Context<Self>) {
        if !text.is_empty() {
            self.send(Event::Text { text, tokens }, ctx);
        }
    }

    fn done(&mut self, finish: Finish, at: Instant, ctx: &mut Context<Self>) {
        if self.ended {
            return;
        }
        let usage = self.usage();
        let timings = self.clock.timings(at, &self.counts, self.seed);
        self.send(Event::Done { finish, usage, timings }, ctx);
        let reason = match finish {
            Finish::Stop => FinishReason::Stop,
            Finish::Length => FinishReason::Length,
        };
        self.end(reason, at, ctx);
    }

    fn usage(&self) -> Usage {
        let Counts { prompt, cached, generated, .. } = self.counts;
        Usage { prompt_tokens: prompt, cached_tokens: cached, completion_tokens: generated }
    }

    fn fail(&mut self, failure: Failure, at: Instant, ctx: &mut Context<Self>) {
        if self.ended {
            return;
        }
        self.why = Some(failure.to_string());
        self.send(Event::Failed(failure), ctx);
        self.end(FinishReason::Error, at, ctx);
    }

    /// Not taken: it never became a row, so it counts among the refusals and not among the ends.
    fn refuse(&mut self, failure: Failure, reason: Refusal, ctx: &mut Context<Self>) {
        tracing::info!(id = self.id, key = &*self.key.name, finish = "refused", reason = reason.as_str(), why = %failure, "request");
        self.desk.metrics.refused(reason);
        if let Some(row) = &mut self.row {
            row.ticket.ended = true;
        }
        self.trace.end(reason.as_str(), &self.usage());
        self.send(Event::Failed(failure), ctx);
        self.stop(ctx);
    }

    /// The channel has room for the longest answer, so this fails only if the client has left; its `Left` is on the way then,
    /// but an actor whose arbiter is going down may not live to read it.
    fn send(&mut self, event: Event, ctx: &mut Context<Self>) {
        if let Err(error) = self.events.try_send(event) {
            debug_assert!(matches!(error, mpsc::error::TrySendError::Closed(_)), "an answer has room for all its events");
            self.left(ctx);
        }
    }

    fn left(&mut self, ctx: &mut Context<Self>) {
        if self.ended {
            return;
        }
        let phase = match (self.clock.is_admitted(), self.clock.has_token()) {
            (_, true) => DisconnectPhase::Decode,
            (true, false) => DisconnectPhase::Prefill,
            (false, false) => DisconnectPhase::Queue,
        };
        self.desk.metrics.disconnected(phase);
        self.end(FinishReason::Abort, Instant::now(), ctx);
    }

    fn end(&mut self, reason: FinishReason, at: Instant, ctx: &mut Context<Self>) {
        if self.ended {
            return;
        }
        let counts = self.counts;
        let done = RequestDone {
            reason,
            prompt_tokens: counts.prompt,
            generation_tokens: counts.generated,
            longest_answer_tokens: counts.generated,
            max_tokens: self.params.max_tokens,
            n: 1,
            queue: self.clock.queue(at),
            prefill: self.clock.prefill(),
            decode: self.clock.decode(),
            e2e: self.clock.since_asked(at),
        };
        self.desk.metrics.finished(&done);
        self.trace.end(reason.as_str(), &self.usage());
        let ms = |took: Option<Duration>| took.map(|took| took.as_millis() as u64);
        tracing::info!(
            id = self.id,
            answer = self.answer,
            key = &*self.key.name,
            finish = reason.as_str(),
            why = self.why,
            prompt_tokens = counts.prompt,
            cached_tokens = counts.cached,
            generated_tokens = counts.generated,
            preemptions = counts.preemptions,
            restarts = counts.restarts,
            queue_ms = ms(Some(done.queue)),
            prefill_ms = ms(done.prefill),
            decode_ms = ms(done.decode),
            total_ms = ms(Some(done.e2e)),
            "request"
        );
        self.stop(ctx);
    }

    fn stop(&mut self, ctx: &mut Context<Self>) {
        self.ended = true;
        // Drops the ticket: a row that the scheduler still has is cancelled.
        self.row = None;
        ctx.stop();
    }
}

impl Actor for Request {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let Some(prompt) = self.prompt.take() else { return };
        let (desk, params) = (Arc::clone(&self.desk), self.params.clone());
        let inline = prompt::weight_bytes(&prompt) <= INLINE_BYTES_MAX;
        let prepare = move || {
            let param = prompt::param(&prompt);
            let ids = prompt::ids(&desk.text, prompt, desk.bounds.context)?;
            check::check(ids, param, &params, desk.bounds)
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
    fn prepared(&mut self, outcome: Result<Checked, Failure>, ctx: &mut Context<Self>) {
        match outcome {
            Ok(checked) => self.submit(checked, ctx),
            Err(failure @ Failure::Invalid { code, .. }) => {
                let reason = if code == check::NEVER_FITS { Refusal::NeverFits } else { Refusal::Invalid };
                self.refuse(failure, reason, ctx);
            }
            Err(failure) => self.fail(failure, Instant::now(), ctx),
        }
    }

    fn refused(&mut self, refusal: scheduler::Refusal, retry_after_s: u32, ctx: &mut Context<Self>) {
        use scheduler::Refusal as R;
        let (failure, reason) = match refusal {
            R::NeverFits { need_tokens, pool_tokens } => {
                let message = format!("prompt and answer need room for {need_tokens} tokens; the KV budget holds {pool_tokens}");
                (invalid(check::NEVER_FITS, message), Refusal::NeverFits)
            }
            R::TooLong { need_tokens, context } => {
                let message = format!("prompt and answer need {need_tokens} tokens; the model's context holds {context}");
                (invalid("context_length_exceeded", message), Refusal::Invalid)
            }
            R::Empty => {
                let message = "at least one token of a prompt and one of an answer are needed".into();
                (invalid("invalid_value", message), Refusal::Invalid)
            }
            R::QueueFull { waiting } => {
                let message = format!("{waiting} requests are waiting; no more are taken now");
                (Failure::Busy { message, retry_after_s }, Refusal::QueueFull)
            }
            R::Draining => (unavailable("the service is shutting down".into()), Refusal::Draining),
        };
        self.refuse(failure, reason, ctx);
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

fn invalid(code: &'static str, message: String) -> Failure {
    let param = "max_tokens";
    Failure::Invalid { param, code, message }
}

/// The process's random keys, hashed anew each time: no clock, whose millisecond two rows may share.
fn random_seed() -> u64 {
    RandomState::new().hash_one(()) >> (u64::BITS - SEED_BITS)
}
