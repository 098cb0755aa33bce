//! Many seeds, on all cores, until all are done or one fails.

use super::script::Script;
use super::seam::Straight;
use super::seen::Seen;
use super::shrink::shrink;
use super::trial::{self, Failure};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A seed that fails.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) seed: u64,
    /// Acts that the seed had made when it failed.
    pub(crate) acts: usize,
    pub(crate) script: Script,
    pub(crate) failure: Failure,
}

/// Tries seeds `first .. first + count`. With several that fail, the smallest of them is shrunk and given. `progress` is told
/// how many are done.
pub(crate) fn run(first: u64, count: u64, hours: u32, progress: impl Fn(u64) + Sync) -> (Seen, Option<Found>) {
    let (next, done, bad) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let worker = || {
        let mut sum = Seen::default();
        let mut failed = None;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            // Seeds below a failing one are still tried, so that the same command names the same seed every time.
            if index >= count || index > bad.load(Ordering::Relaxed) {
                return (sum, failed);
            }
            let seed = first.wrapping_add(index);
            match trial::run(&Script::of(seed, hours), &mut Straight) {
                Ok(seen) => sum += seen,
                Err(failure) => {
                    bad.fetch_min(index, Ordering::Relaxed);
                    failed = Some((index, seed, failure));
                }
            }
            progress(1 + done.fetch_add(1, Ordering::Relaxed));
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let all: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().map(|thread| thread.join().expect("trials catch their panics")).collect()
    });
    let mut sum = Seen::default();
    let mut failures = Vec::new();
    for (seen, failed) in all {
        sum += seen;
        failures.extend(failed);
    }
    let found = failures.into_iter().min_by_key(|(index, ..)| *index).map(|(_, seed, failure)| {
        let acts = failure.acts;
        let (script, failure) = shrink(&Script::of(seed, hours), failure, |script| trial::run(script, &mut Straight).err());
        Found { seed, acts, script, failure }
    });
    (sum, found)
}
