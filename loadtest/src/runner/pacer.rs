//! Gives out arrivals at their times, on a thread of its own: a timer of the runtime is a millisecond late, and later while it
//! works answers off.

use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What arrives is made before it is due, in the time that would be slept away.
pub(super) fn pace<T: Send + 'static>(start: Instant, arrivals: impl Iterator<Item = (Duration, T)> + Send + 'static) -> UnboundedReceiver<(Duration, T)> {
    let (to, from) = unbounded_channel();
    thread::spawn(move || give_out(start, arrivals, &to));
    from
}

/// Ends with the arrivals, or when nobody takes them any more.
fn give_out<T>(start: Instant, arrivals: impl Iterator<Item = (Duration, T)>, to: &UnboundedSender<(Duration, T)>) {
    for (offset, what) in arrivals {
        thread::sleep((start + offset).saturating_duration_since(Instant::now()));
        if to.send((offset, what)).is_err() {
            break;
        }
    }
}
