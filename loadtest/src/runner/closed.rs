//! The closed loop: each client asks, waits for the end of the answer, and asks again.

use super::{Ran, Run, show};
use crate::client::Client;
use crate::load::workload::Job;
use crate::progress::Progress;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Holds all the conversations of `jobs`, or begins none after `until`, `concurrency` at a time. Within a `LocalSet`.
///
/// A client intends to send its next request at the moment its last one ended. One that was refused first stays away for as long
/// as the server asks, and a request's timeout at most: otherwise all requests of a run would be refused within a second.
pub async fn closed(
    client: Rc<Client>,
    seed: u64,
    jobs: impl Iterator<Item = Job> + 'static,
    concurrency: usize,
    until: Option<Duration>,
    progress: Option<Progress>,
) -> Ran {
    let run = Run::new(client, seed, Instant::now(), until);
    let jobs = Rc::new(RefCell::new(jobs));
    let shown = progress.map(|progress| tokio::task::spawn_local(show(run.clone(), progress)));
    let mut clients = JoinSet::new();
    for _ in 0..concurrency {
        clients.spawn_local(ask_and_ask_again(run.clone(), jobs.clone()));
    }
    while let Some(ended) = clients.join_next().await {
        ended.expect("a client does not panic");
    }
    if let Some(shown) = shown {
        shown.abort();
    }
    Ran { outcomes: run.outcomes.take(), arrivals_end: None }
}

async fn ask_and_ask_again(run: Rc<Run>, jobs: Rc<RefCell<impl Iterator<Item = Job>>>) {
    let mut intended = run.start;
    while !run.over() {
        let Some(job) = jobs.borrow_mut().next() else { break };
        let free = run.hold(job, intended, false).await;
        intended = free.at;
        if let Some(wait) = free.wait {
            intended += wait;
            if run.until.is_some_and(|until| intended >= until) {
                break;
            }
            tokio::time::sleep_until(intended.into()).await;
        }
    }
}
