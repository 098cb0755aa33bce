//! How long a step may take before it counts as hung: a multiple of what steps took lately, and never less than a floor. Pure.

use std::collections::VecDeque;
use std::time::Duration;

/// Steps whose times are remembered.
const RECENT: usize = 64;
/// A step may take so many times as long as the slowest recent one would have with as many tokens. Tokens cost more where a prompt is long,
/// and a machine may be busy with something else for a while; what hangs, hangs for ever.
const PATIENCE: u32 = 10;
/// The first step of a life may take so many floors: kernels are compiled, and memory is touched for the first time.
const FIRST: u32 = 4;

/// Each deadline missed in a row doubles the next one, so many times at most.
const LONGER_MAX: u32 = 6;

#[derive(Debug)]
pub(crate) struct Pace {
    floor: Duration,
    /// Time per token of recent steps.
    recent: VecDeque<Duration>,
    /// A step of this life is done.
    warm: bool,
    /// Deadlines missed in a row.
    missed: u32,
}

impl Pace {
    pub(crate) fn new(floor: Duration) -> Pace {
        Pace { floor, recent: VecDeque::with_capacity(RECENT), warm: false, missed: 0 }
    }

    /// A new life: what steps took still says what they will take.
    pub(crate) fn new_life(&mut self) {
        self.warm = false;
    }

    /// A step missed its deadline. Should the fault lie with the deadline, the next one must not fail for the same reason.
    pub(crate) fn hung(&mut self) {
        self.missed += 1;
    }

    pub(crate) fn done(&mut self, tokens: u32, took: Duration) {
        (self.warm, self.missed) = (true, 0);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(took / tokens.max(1));
    }

    /// How long a step of so many tokens may take.
    pub(crate) fn deadline(&self, tokens: u32) -> Duration {
        let floor = if self.warm { self.floor } else { self.floor.saturating_mul(FIRST) };
        let slowest = self.recent.iter().max().copied().unwrap_or_default();
        floor.max(slowest.saturating_mul(tokens.saturating_mul(PATIENCE))).saturating_mul(1 << self.missed.min(LONGER_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_follows_the_slowest_recent_step() {
        let ms = Duration::from_millis;
        let mut pace = Pace::new(ms(1000));
        assert_eq!(pace.deadline(500), ms(4000), "nothing is known, and the first step may take longer");
        pace.done(4, ms(20));
        assert_eq!((pace.deadline(4), pace.deadline(100)), (ms(1000), ms(5000)));
        pace.done(10, ms(10));
        assert_eq!(pace.deadline(100), ms(5000), "the slowest counts, not the last");
        pace.new_life();
        assert_eq!((pace.deadline(4), pace.deadline(100)), (ms(4000), ms(5000)));
        pace.hung();
        pace.hung();
        assert_eq!((pace.deadline(4), pace.deadline(100)), (ms(16_000), ms(20_000)), "twice as long each time");
        for _ in 0..RECENT {
            pace.done(1, ms(2));
        }
        assert_eq!(pace.deadline(100), ms(2000), "long ago is forgotten");
    }
}
