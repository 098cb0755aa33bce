//! What the actors tell each other. Ids cross here; state does not.

use crate::request::Request;
use actix::{Addr, Message};
use kv::{Mask, SeqId, Settled, Step, StepDone, Wants};
use metrics::KeySeries;
use models::engine::Memory;
use std::time::Instant;
use tokio::sync::oneshot;

/// To Scheduler: a new row, and where to tell of it.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Submit {
    pub(crate) submit: scheduler::Submit,
    pub(crate) route: Route,
}

/// To Scheduler: the ids that a row's draw of this index may give.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Allow {
    pub(crate) seq: SeqId,
    pub(crate) index: u32,
    pub(crate) mask: Mask,
}

/// To Scheduler: a row's client does not read, or reads again.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) enum Flow {
    Pause(SeqId),
    Resume(SeqId),
}

/// To Scheduler: forget a row.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Cancel(pub(crate) SeqId);

/// To KV-budget: settle a turn's list.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Settle(pub(crate) Wants);

/// From KV-budget to Scheduler: what was granted.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Granted(pub(crate) Settled);

/// To Model: launch a step.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct RunStep(pub(crate) Step);

/// From Model to Scheduler: a step is done.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Stepped {
    pub(crate) done: StepDone,
    pub(crate) memory: Memory,
}

/// Scheduler → Model: the loss is noted. Every step sent before this was for the life that was lost.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct LossHeard;

/// From Model to Scheduler: whether there is a model to plan for.
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub(crate) enum ModelIs {
    /// Lost with everything on the device; it is being opened again.
    Lost,
    /// Lost so often that nobody should wait for it. It is being opened again all the same.
    Down(String),
    /// Open again, its pool empty.
    Back,
    /// Lost for good: nothing will be served any more.
    Gone(String),
}

/// To Scheduler: refuse new rows and finish those that are here.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Drain;

/// To Scheduler: forget prefixes that no row holds.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Flush;

/// To Scheduler: end every row now. Answers with their number.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Cut(pub(crate) oneshot::Sender<u32>);

/// To Request: something happened to its row at this moment. The Scheduler stamps it, so that a busy HTTP worker does not
/// show in the row's timings.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Delta {
    pub(crate) at: Instant,
    pub(crate) what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    /// The scheduler took it: it will be answered.
    Accepted,
    Event(scheduler::Event),
    Refused {
        refusal: scheduler::Refusal,
        retry_after_s: u32,
    },
    /// The model was lost while the row ran: it goes on once that is back.
    Interrupted,
    /// The row will hear nothing more: no model, or the service went down under it.
    Lost(String),
}

/// The way back to a row's Request actor. Whoever drops it before the row's last word tells the row that it is lost, so that
/// no client waits for an answer that nobody will give: not after a refusal, not after a panic.
pub(crate) struct Route {
    pub(crate) prompt_tokens: u32,
    /// Of the key that asked.
    pub(crate) series: KeySeries,
    request: Option<Addr<Request>>,
    reason: String,
    /// The row has blocks.
    pub(crate) runs: bool,
    /// The model was lost while the row ran, and it does not run again yet.
    pub(crate) was_lost: bool,
}

impl Route {
    pub(crate) fn new(request: Addr<Request>, prompt_tokens: u32, series: KeySeries) -> Route {
        Route { prompt_tokens, series, request: Some(request), reason: "the service stopped".into(), runs: false, was_lost: false }
    }

    pub(crate) fn tell(&self, at: Instant, what: What) {
        if let Some(request) = &self.request {
            request.do_send(Delta { at, what });
        }
    }

    /// The last word.
    pub(crate) fn end(mut self, at: Instant, what: What) {
        self.tell(at, what);
        self.request = None;
    }

    /// The row is lost for this reason.
    pub(crate) fn lose(mut self, reason: &str) {
        reason.clone_into(&mut self.reason);
    }

    /// Nobody listens any more.
    pub(crate) fn forget(mut self) {
        self.request = None;
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let what = What::Lost(std::mem::take(&mut self.reason));
            request.do_send(Delta { at: Instant::now(), what });
        }
    }
}
