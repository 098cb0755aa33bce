//! Puts the load on: clients that wait for their answers (closed), or requests at their times whatever the answers (open).
//!
//! All of it runs on one thread, because what a client does between two waits takes microseconds; only the pacer, which must not
//! be late, has one of its own.

mod closed;
mod open;
mod pacer;
#[cfg(test)]
mod tests;

use crate::chat::Message;
use crate::client::{Ask, Client, Clock};
use crate::load::workload::Job;
use crate::outcome::{End, Outcome};
use crate::progress::Progress;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

pub use closed::closed;
pub use open::{Arrivals, open};

/// Outcomes in the order of their ends.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ran {
    pub outcomes: Vec<Outcome>,
    /// When the last request of an open loop was due, or the loop's time was over.
    pub arrivals_end: Option<Duration>,
}

/// How a run stands.
#[derive(Default)]
pub struct Live {
    pub sent: Cell<usize>,
    pub ended: Cell<usize>,
    pub refused: Cell<usize>,
    pub failed: Cell<usize>,
    pub pieces: Cell<u64>,
}

/// One run.
struct Run {
    client: Rc<Client>,
    seed: u64,
    start: Instant,
    /// After this no client asks again.
    until: Option<Instant>,
    outcomes: RefCell<Vec<Outcome>>,
    live: Live,
}

/// A client at the end of a conversation.
struct Free {
    at: Instant,
    /// The server asked it to stay away for so long.
    wait: Option<Duration>,
}

impl Run {
    fn new(client: Rc<Client>, seed: u64, start: Instant, until: Option<Duration>) -> Rc<Run> {
        let until = until.map(|until| start + until);
        Rc::new(Run { client, seed, start, until, outcomes: RefCell::default(), live: Live::default() })
    }

    fn over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// One conversation. Its later turns are due when the answer before them ended: time that is lost between the two counts as
    /// latency. One whose turn did not come to its end has no further turns.
    async fn hold(&self, job: Job, mut intended: Instant, mut delayed: bool) -> Free {
        let mut messages = job.before;
        for (i, turn) in job.turns.into_iter().enumerate() {
            if i > 0 && self.over() {
                break;
            }
            let index = job.first + i;
            messages.push(Message::user(turn.text));
            let ask = Ask {
                index,
                messages: &messages,
                max_tokens: turn.max_tokens,
                seed: self.seed.wrapping_add(index as u64),
                key: job.key,
                leave_after: turn.leave_after,
                slow: turn.slow,
                delayed: std::mem::take(&mut delayed),
            };
            count(&self.live.sent);
            let clock = Clock { start: self.start, intended, pieces: &self.live.pieces };
            let mut outcome = self.client.send(&ask, clock).await;
            intended = self.start + outcome.ended;
            messages.push(Message::assistant(std::mem::take(&mut outcome.text)));
            let goes_on = outcome.done();
            // No longer than an answer may take: a server that asks for hours would keep the run from ending.
            let wait = if let End::Refused { retry_after, .. } = outcome.end { Some(retry_after.min(self.client.timeout)) } else { None };
            self.note(outcome);
            if !goes_on {
                return Free { at: intended, wait };
            }
        }
        Free { at: intended, wait: None }
    }

    fn note(&self, outcome: Outcome) {
        count(&self.live.ended);
        match outcome.end {
            End::Refused { .. } => count(&self.live.refused),
            End::Failed(_) => count(&self.live.failed),
            End::Done { .. } | End::Left => {}
        }
        self.outcomes.borrow_mut().push(outcome);
    }
}

fn count(cell: &Cell<usize>) {
    cell.set(cell.get() + 1);
}

/// Shows how the run stands, until it is dropped.
async fn show(run: Rc<Run>, progress: Progress) {
    loop {
        progress.show(&run.live, run.start.elapsed());
        tokio::time::sleep(Progress::BETWEEN).await;
    }
}
