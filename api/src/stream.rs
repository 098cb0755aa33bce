//! Turns a request's events into a response: server-sent events as they come, or one whole body.

use crate::refusal::Refusal;
use crate::voice::{Collected, End, Voice};
use actix_web::rt::time::{Instant, Sleep, sleep, timeout};
use actix_web::web::Bytes;
use actors::{Event, Failure, Piece, TokenLogprob};
use dialects::whole as put_together;
use futures_util::{Stream, StreamExt};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Silence after which a comment is sent: proxies hang up on connections that say nothing for a minute, some for thirty seconds.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(15);
/// Events that are ready together share a write up to here, then the socket gets its turn.
const WRITE_BYTES: usize = 16 * 1024;

/// An event, and the choice that it is of.
pub(crate) type Told = (u32, Event);

/// The body of a stream. Dropping it drops the events and so cancels the rows: that is what happens when the client leaves.
pub(crate) struct Frames<S> {
    /// None once the last frame is out.
    events: Option<S>,
    voice: Box<dyn Voice>,
    prompt_tokens: u32,
    /// Of each choice, once it has ended.
    ends: Vec<Option<End>>,
    /// Of each choice, the tokens of its reasoning so far.
    reasoning: Vec<u32>,
    started: bool,
    silence: Pin<Box<Sleep>>,
}

impl<S: Stream<Item = Told> + Unpin> Frames<S> {
    /// `events` are of `choices` choices, and begin after their `Began`.
    pub(crate) fn new(events: S, voice: Box<dyn Voice>, choices: usize, prompt_tokens: u32) -> Self {
        let (ends, reasoning, silence) = (vec![None; choices], vec![0; choices], Box::pin(sleep(PING_EVERY)));
        Frames { events: Some(events), voice, prompt_tokens, ends, reasoning, started: false, silence }
    }

    /// Writes what is ready. Pending only tells that no more is ready now.
    fn write_ready(&mut self, out: &mut Vec<u8>, cx: &mut Context<'_>) {
        if !self.started {
            self.started = true;
            self.voice.begin(out, self.prompt_tokens);
        }
        while out.len() < WRITE_BYTES {
            let Some(events) = self.events.as_mut() else { return };
            let Poll::Ready(event) = events.poll_next_unpin(cx) else { return };
            match event {
                Some((_, Event::Began { .. })) => {}
                Some((choice, Event::Said { pieces, tokens, logprobs })) => {
                    self.reasoning[choice as usize] += if of_reasoning(&pieces) { tokens } else { 0 };
                    self.voice.said(out, choice, pieces, &logprobs);
                }
                Some((choice, Event::Done { finish, stop, usage, timings })) => {
                    let reasoning_tokens = self.reasoning[choice as usize];
                    self.done(out, choice, End { finish, stop, usage, reasoning_tokens, timings });
                }
                Some((_, Event::Failed(failure))) => self.fail(out, failure.into()),
                None => self.fail(out, cut_short()),
            }
        }
    }

    fn done(&mut self, out: &mut Vec<u8>, choice: u32, end: End) {
        self.voice.done(out, choice, &end);
        self.ends[choice as usize] = Some(end);
        let ends: Option<Vec<End>> = self.ends.iter().copied().collect();
        if let Some(ends) = ends {
            self.voice.close(out, &ends);
            self.events = None;
        }
    }

    fn fail(&mut self, out: &mut Vec<u8>, refusal: Refusal) {
        self.voice.failed(out, &refusal);
        self.events = None;
    }
}

impl<S: Stream<Item = Told> + Unpin> Stream for Frames<S> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.events.is_none() {
            return Poll::Ready(None);
        }
        let mut out = Vec::new();
        this.write_ready(&mut out, cx);
        if out.is_empty() {
            if this.silence.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            this.voice.ping(&mut out);
        }
        this.silence.as_mut().reset(Instant::now() + PING_EVERY);
        Poll::Ready(Some(Ok(Bytes::from(out))))
    }
}

/// The first event decides the status: `Began`, with the prompt's tokens, or why not.
pub(crate) async fn begun<S: Stream<Item = Event> + Unpin>(events: &mut S) -> Result<u32, Refusal> {
    match events.next().await {
        Some(Event::Began { prompt_tokens, .. }) => Ok(prompt_tokens),
        Some(Event::Failed(failure)) => Err(failure.into()),
        Some(Event::Said { .. } | Event::Done { .. }) | None => Err(cut_short()),
    }
}

/// The first event after that, for as long as proxies wait: a stream that fails before its first text fails with a status, as whoever
/// waits in the queue when the model is lost.
pub(crate) async fn first<S: Stream<Item = Told> + Unpin>(events: &mut S) -> Result<Option<Told>, Refusal> {
    match timeout(PING_EVERY, events.next()).await {
        Err(_silence) => Ok(None),
        Ok(Some((_, Event::Failed(failure)))) => Err(failure.into()),
        Ok(Some(told)) => Ok(Some(told)),
        Ok(None) => Err(cut_short()),
    }
}

/// Collects what is left of each choice.
pub(crate) async fn whole<S: Stream<Item = Told> + Unpin>(mut events: S, choices: usize) -> Result<Vec<Collected>, Refusal> {
    let mut open: Vec<(Vec<Piece>, Vec<TokenLogprob>, u32)> = vec![(Vec::new(), Vec::new(), 0); choices];
    let mut collected: Vec<Option<Collected>> = vec![None; choices];
    while let Some((choice, event)) = events.next().await {
        let choice = choice as usize;
        match event {
            Event::Began { .. } => {}
            Event::Said { pieces, tokens, logprobs } => {
                open[choice].2 += if of_reasoning(&pieces) { tokens } else { 0 };
                open[choice].0.extend(pieces);
                open[choice].1.extend(logprobs);
            }
            Event::Done { finish, stop, usage, timings } => {
                let (pieces, logprobs, reasoning_tokens) = std::mem::take(&mut open[choice]);
                collected[choice] = Some(Collected { said: put_together(pieces), logprobs, end: End { finish, stop, usage, reasoning_tokens, timings } });
                if collected.iter().all(Option::is_some) {
                    return Ok(collected.into_iter().flatten().collect());
                }
            }
            Event::Failed(failure) => return Err(failure.into()),
        }
    }
    Err(cut_short())
}

/// Whether the tokens behind these pieces are reasoning's. Of an event that has more than reasoning, what comes first decides.
pub(crate) fn of_reasoning(pieces: &[Piece]) -> bool {
    matches!(pieces.first(), Some(Piece::Reasoning(_)))
}

/// The events ended without an end: whoever answered is gone. A client should try again.
fn cut_short() -> Refusal {
    Failure::Fault { message: "the request was cut short; it may be sent again".into() }.into()
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
