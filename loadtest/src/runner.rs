//! The closed loop: each client asks, waits for the end of the answer, and asks again.

use crate::chat::{Message, Settings};
use crate::client::{self, Ask, End, Outcome};
use crate::http::Server;
use crate::workload::{self, Job};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How the load is put on.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    pub settings: Settings,
    pub concurrency: usize,
    pub seed: u64,
    /// Share of requests whose client leaves before the end, 0 to 1.
    pub disconnect: f64,
}

/// All outcomes, in no particular order, and the time from the first intended start to the last end.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    pub outcomes: Vec<Outcome>,
    pub wall: Duration,
}

/// Holds all the conversations of `jobs`, `load.concurrency` at a time.
///
/// A client intends to send its next request at the moment its last one ended: time that it loses between the two counts as
/// latency. A conversation whose turn fails or is left has no further turns.
pub fn run(server: &Server, load: &Load, jobs: &[Job]) -> Ran {
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    let client = || {
        let mut outcomes = Vec::new();
        let mut intended = start;
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            intended = hold(server, load, job, intended, &mut outcomes);
        }
        outcomes
    };
    let outcomes = thread::scope(|scope| {
        let clients: Vec<_> = (0..load.concurrency).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|c| c.join().expect("a client does not panic")).collect()
    });
    Ran { outcomes, wall: start.elapsed() }
}

/// One conversation; returns when its client is free again.
fn hold(server: &Server, load: &Load, job: &Job, mut intended: Instant, outcomes: &mut Vec<Outcome>) -> Instant {
    let mut messages = job.conversation.before.clone();
    for (turn, text) in job.conversation.turns.iter().enumerate() {
        let index = job.first + turn;
        messages.push(Message::user(text));
        let ask = Ask {
            settings: &load.settings,
            messages: &messages,
            seed: load.seed.wrapping_add(index as u64),
            leave_after: workload::leaves_after(load.seed, index, load.disconnect, load.settings.max_tokens),
        };
        let outcome = client::send(server, &ask, intended);
        intended += outcome.whole;
        let whole = matches!(outcome.end, End::Done { .. });
        messages.push(Message::assistant(&outcome.text));
        outcomes.push(outcome);
        if !whole {
            break;
        }
    }
    intended
}
