//! The client's end of one request: a stream of events. Dropping it early is how a client leaves.

use crate::ask::{Event, Failure};
use futures_util::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Events of one request, ending with exactly one `Done` or `Failed`. Dropped before that, it frees the row within a step.
pub struct Answer {
    events: mpsc::Receiver<Event>,
    ended: bool,
}

impl Answer {
    /// The next event; None after the last.
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
        let event = event.unwrap_or_else(|| Event::Failed(Failure::Fault { message: "the request was ended by an internal fault".into() }));
        this.ended = matches!(event, Event::Done { .. } | Event::Failed(_));
        Poll::Ready(Some(event))
    }
}
