//! The open loop: each conversation begins when it is due, whether or not others have been answered.

use super::pacer::pace;
use super::{Ran, Run, show};
use crate::client::Client;
use crate::load::workload::Job;
use crate::progress::Progress;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The pacer starts within this time, so that an arrival at 0 is not late.
const LEAD: Duration = Duration::from_millis(20);

/// When conversations begin.
pub struct Arrivals<J> {
    /// Each with its time since the start, in order. They end.
    pub due: J,
    /// How long requests arrive, where that is what was asked for; else until the last one is due.
    pub duration: Option<Duration>,
}

/// Holds all the conversations, each from when it is due. Within a `LocalSet`.
///
/// No more than `in_flight_max` are held at once. One that is due while there are as many waits, its latency counts from when it was due all
/// the same, and its outcome says that it was delayed.
pub async fn open<J>(client: Rc<Client>, seed: u64, arrivals: Arrivals<J>, in_flight_max: usize, progress: Option<Progress>) -> Ran
where
    J: Iterator<Item = (Duration, Job)> + Send + 'static,
{
    let start = Instant::now() + LEAD;
    let run = Run::new(client, seed, start, None);
    let mut due = pace(start, arrivals.due);
    let shown = progress.map(|progress| tokio::task::spawn_local(show(run.clone(), progress)));
    let places = Arc::new(Semaphore::new(in_flight_max));
    let mut held = JoinSet::new();
    let mut last = Duration::ZERO;
    // Until when nobody could be sent. Who was due before that has waited, even if there is a place now.
    let mut full_until = start;
    while let Some((offset, job)) = due.recv().await {
        last = offset;
        let intended = start + offset;
        let (place, delayed) = match places.clone().try_acquire_owned() {
            Ok(place) => (place, intended < full_until),
            Err(_) => {
                let place = places.clone().acquire_owned().await.expect("the semaphore is not closed");
                full_until = Instant::now();
                (place, true)
            }
        };
        let run = run.clone();
        held.spawn_local(async move {
            run.hold(job, intended, delayed).await;
            drop(place);
        });
        while let Some(ended) = held.try_join_next() {
            ended.expect("a client does not panic");
        }
    }
    while let Some(ended) = held.join_next().await {
        ended.expect("a client does not panic");
    }
    if let Some(shown) = shown {
        shown.abort();
    }
    Ran { outcomes: run.outcomes.take(), arrivals_end: Some(arrivals.duration.unwrap_or(last)) }
}
