//! The client's end of one request: a stream of events. Dropping it early is how a client leaves.

use crate::ask::{Event, Failure};
use crate::request::{Caught, Left, Request};
use actix::Addr;
use futures_util::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Events that a client may have before it when its paused row goes on.
const CAUGHT_UP: usize = 32;

/// Events of one request, ending with exactly one `Done` or `Failed`. Dropped before that, it frees the row within a step.
pub struct Answer {
    /// The Request actor holds the other end. Its capacity is the longest answer's events, so that the actor never waits.
    events: mpsc::Receiver<Event>,
    /// Whom to tell of an early drop; None for a request that was refused before it had an actor.
    pub(crate) request: Option<Addr<Request>>,
    /// The row is paused until most of what there is has been read.
    paused: Arc<AtomicBool>,
    ended: bool,
}

impl Answer {
    pub(crate) fn new(events: mpsc::Receiver<Event>, request: Addr<Request>, paused: Arc<AtomicBool>) -> Answer {
        Answer { events, request: Some(request), paused, ended: false }
    }

    /// An answer whose only event is this failure.
    pub(crate) fn refused(failure: Failure) -> Answer {
        let (to, events) = mpsc::channel(1);
        let sent = to.try_send(Event::Failed(failure));
        debug_assert!(sent.is_ok(), "a new channel has room for one");
        Answer { events, request: None, paused: Arc::default(), ended: false }
    }

    /// Its Request actor writes the log line of this request.
    pub fn is_logged(&self) -> bool {
        self.request.is_some()
    }

    /// The next event; None after the last. Safe to drop and call again: no event is lost between calls.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Answer {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        let event = std::task::ready!(this.events.poll_recv(cx));
        // The sender is gone without a last word: the request's own task panicked. Only this request ends.
        let event = event.unwrap_or_else(|| {
            let message = "the request was ended by an internal fault".into();
            Event::Failed(Failure::Fault { message })
        });
        if this.events.len() <= CAUGHT_UP
            && this.paused.load(Ordering::Relaxed)
            && this.paused.swap(false, Ordering::AcqRel)
            && let Some(request) = &this.request
        {
            request.do_send(Caught);
        }
        this.ended = matches!(event, Event::Done { .. } | Event::Failed(_));
        Poll::Ready(Some(event))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(request) = self.request.take()
            && !self.ended
        {
            request.do_send(Left);
        }
    }
}
