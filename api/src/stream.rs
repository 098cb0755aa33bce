//! Turns a request's events into a response: server-sent events as they come, or one whole body.

use crate::refusal::Refusal;
use crate::wire::{Head, Voice};
use actix_web::rt::time::{Instant, Sleep, sleep, timeout};
use actix_web::web::Bytes;
use actors::{Event, Failure};
use futures_util::{Stream, StreamExt};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Silence after which a comment is sent: proxies hang up on connections that say nothing for a minute, some for thirty seconds.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(15);
/// Events that are ready together share a write up to here, then the socket gets its turn.
const WRITE_BYTES: usize = 16 * 1024;

/// The body of a stream. Dropping it drops the events and so cancels the row: that is what happens when the client leaves.
pub(crate) struct Frames<S> {
    /// None once the last frame is out.
    events: Option<S>,
    voice: Voice,
    started: bool,
    silence: Pin<Box<Sleep>>,
}

impl<S: Stream<Item = Event> + Unpin> Frames<S> {
    /// `events` begin after `Began`.
    pub(crate) fn new(events: S, voice: Voice) -> Self {
        Frames { events: Some(events), voice, started: false, silence: Box::pin(sleep(PING_EVERY)) }
    }

    /// Writes what is ready. Pending only tells that no more is ready now.
    fn write_ready(&mut self, out: &mut Vec<u8>, cx: &mut Context<'_>) {
        if !self.started {
            self.started = true;
            self.voice.role(out);
        }
        while out.len() < WRITE_BYTES {
            let Some(events) = self.events.as_mut() else { return };
            let Poll::Ready(event) = events.poll_next_unpin(cx) else { return };
            match event {
                Some(Event::Began { .. }) => {}
                Some(Event::Text { text, .. }) if text.is_empty() => {}
                Some(Event::Text { text, .. }) => self.voice.text(out, &text),
                Some(Event::Done { finish, usage, timings }) => {
                    self.voice.done(out, finish, usage, timings);
                    self.events = None;
                }
                Some(Event::Failed(failure)) => self.fail(out, failure.into()),
                None => self.fail(out, cut_short()),
            }
        }
    }

    fn fail(&mut self, out: &mut Vec<u8>, refusal: Refusal) {
        Voice::failed(out, &refusal.json());
        self.events = None;
    }
}

impl<S: Stream<Item = Event> + Unpin> Stream for Frames<S> {
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
            out.extend_from_slice(b": ping\n\n");
        }
        this.silence.as_mut().reset(Instant::now() + PING_EVERY);
        Poll::Ready(Some(Ok(Bytes::from(out))))
    }
}

/// The first event decides the status: `Began`, or why not.
pub(crate) async fn begun<S: Stream<Item = Event> + Unpin>(events: &mut S) -> Result<(), Refusal> {
    match events.next().await {
        Some(Event::Began { .. }) => Ok(()),
        Some(Event::Failed(failure)) => Err(failure.into()),
        Some(Event::Text { .. } | Event::Done { .. }) | None => Err(cut_short()),
    }
}

/// The first event after that, for as long as proxies wait: a stream that fails before its first text fails with a status, as whoever
/// waits in the queue when the model is lost.
pub(crate) async fn first<S: Stream<Item = Event> + Unpin>(events: &mut S) -> Result<Option<Event>, Refusal> {
    match timeout(PING_EVERY, events.next()).await {
        Err(_silence) => Ok(None),
        Ok(Some(Event::Failed(failure))) => Err(failure.into()),
        Ok(Some(event)) => Ok(Some(event)),
        Ok(None) => Err(cut_short()),
    }
}

/// Collects what is left into one body.
pub(crate) async fn whole<S: Stream<Item = Event> + Unpin>(mut events: S, head: &Head) -> Result<String, Refusal> {
    let mut text = String::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Began { .. } => {}
            Event::Text { text: more, .. } => text += &more,
            Event::Done { finish, usage, timings } => return Ok(head.whole(&text, finish, usage, timings)),
            Event::Failed(failure) => return Err(failure.into()),
        }
    }
    Err(cut_short())
}

/// The events ended without an end: whoever answered is gone. A client should try again.
fn cut_short() -> Refusal {
    Failure::Fault { message: "the request was cut short; it may be sent again".into() }.into()
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
