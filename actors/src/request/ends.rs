//! How a request ends: answered, failed, refused, or left by its client. Each is told, counted, traced and logged once.

use super::Request;
use crate::ask::{Event, Failure, Finish, Usage};
use crate::check;
use crate::service::unavailable;
use actix::{ActorContext, Context};
use metrics::{DisconnectPhase, FinishReason, Refusal, RequestDone};
use scheduler::Counts;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

impl Request {
    pub(super) fn done(&mut self, finish: Finish, stop: Option<usize>, at: Instant, ctx: &mut Context<Self>) {
        if self.ended {
            return;
        }
        let usage = self.usage();
        let timings = self.clock.timings(at, &self.counts, self.seed);
        self.send(Event::Done { finish, stop, usage, timings }, ctx);
        let reason = match finish {
            Finish::Stop | Finish::Calls => FinishReason::Stop,
            Finish::Length => FinishReason::Length,
        };
        self.end(reason, at, ctx);
    }

    pub(super) fn usage(&self) -> Usage {
        let Counts { prompt, cached, generated, .. } = self.counts;
        Usage { prompt_tokens: prompt, cached_tokens: cached, completion_tokens: generated }
    }

    pub(super) fn fail(&mut self, failure: Failure, at: Instant, ctx: &mut Context<Self>) {
        if self.ended {
            return;
        }
        self.why = Some(failure.to_string());
        self.send(Event::Failed(failure), ctx);
        self.end(FinishReason::Error, at, ctx);
    }

    /// Not taken: it never became a row, so it counts among the refusals and not among the ends.
    pub(super) fn refuse(&mut self, failure: Failure, reason: Refusal, ctx: &mut Context<Self>) {
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
    pub(super) fn send(&mut self, event: Event, ctx: &mut Context<Self>) {
        if let Err(error) = self.events.try_send(event) {
            debug_assert!(matches!(error, mpsc::error::TrySendError::Closed(_)), "an answer has room for all its events");
            self.left(ctx);
        }
    }

    pub(super) fn left(&mut self, ctx: &mut Context<Self>) {
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

    pub(super) fn end(&mut self, reason: FinishReason, at: Instant, ctx: &mut Context<Self>) {
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
            n: self.n,
            queue: self.clock.queue(),
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
            queue_ms = ms(Some(done.queue.unwrap_or(done.e2e))),
            prefill_ms = ms(done.prefill),
            decode_ms = ms(done.decode),
            total_ms = ms(Some(done.e2e)),
            "request"
        );
        self.stop(ctx);
    }

    pub(super) fn stop(&mut self, ctx: &mut Context<Self>) {
        self.ended = true;
        // Drops the ticket: a row that the scheduler still has is cancelled.
        self.row = None;
        ctx.stop();
    }

    pub(super) fn refused(&mut self, refusal: scheduler::Refusal, retry_after_s: u32, ctx: &mut Context<Self>) {
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

fn invalid(code: &'static str, message: String) -> Failure {
    let param = "max_tokens";
    Failure::Invalid { param, code, message }
}
