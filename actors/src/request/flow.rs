//! A client that reads slowly: its row is paused, and yields its place, until the client has read.

use super::Request;
use crate::ask::Failure;
use crate::messages::Flow;
use actix::{AsyncContext, Context, Handler, Message};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Events that lie before a client when its row is paused: some tens of kilobytes of a stream, beside what the socket holds.
const UNREAD_MAX: usize = 256;
/// A client that has not read for so long will not: its request ends, so that nothing is held for it.
const PAUSED_MAX: Duration = Duration::from_secs(600);

/// From the client's end: it has read.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Caught;

impl Request {
    /// What the client's end looks at.
    pub(crate) fn paused(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.paused)
    }

    pub(super) fn pause_if_unread(&mut self, ctx: &mut Context<Self>) {
        let unread = self.events.max_capacity() - self.events.capacity();
        if self.ended || unread <= UNREAD_MAX || self.paused.swap(true, Ordering::AcqRel) {
            return;
        }
        self.pauses += 1;
        self.desk.scheduling.do_send(Flow::Pause(self.seq));
        tracing::debug!(id = self.id, unread, "the client reads slowly: its row is paused");
        let pause = self.pauses;
        ctx.run_later(PAUSED_MAX, move |request, ctx| {
            if request.pauses == pause && request.paused.load(Ordering::Acquire) {
                let message = format!("the stream was not read for {} seconds", PAUSED_MAX.as_secs());
                request.fail(Failure::Unavailable { message, retry_after_s: 1 }, Instant::now(), ctx);
            }
        });
    }
}

impl Handler<Caught> for Request {
    type Result = ();

    fn handle(&mut self, _: Caught, _: &mut Self::Context) {
        if !self.ended {
            self.desk.scheduling.do_send(Flow::Resume(self.seq));
        }
    }
}
