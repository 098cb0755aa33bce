//! How long a step may take before it counts as hung: a multiple of what steps took lately, and never less than a floor. Pure.

use std::collections::VecDeque;
use std::time::Duration;

/// Steps of each kind whose times are remembered.
const RECENT: usize = 64;
/// A step of so many tokens or more is a chunk of a prompt, whose time goes with its tokens. A smaller one takes what a pass takes, however
/// many tokens it has.
const CHUNK: u32 = 64;
/// A step may take so many times as long as the slowest recent ones would have. Tokens cost more where a prompt is long, and a machine may
/// be busy with something else for a while; what hangs, hangs for ever.
const PATIENCE: u32 = 10;
/// The first step of a life may take so many floors: kernels are compiled, and memory is touched for the first time.
const FIRST: u32 = 4;
/// But no step may take longer than so many: one that took long because its machine stood still must not excuse the next.
const CEILING: u32 = 20;
/// Each deadline missed in a row doubles the next one, so many times at most.
const LONGER_MAX: u32 = 6;

#[derive(Debug)]
pub(crate) struct Pace {
    floor: Duration,
    /// Times of recent small steps.
    passes: VecDeque<Duration>,
    /// Time per token of recent chunks.
    tokens: VecDeque<Duration>,
    /// A step of this life is done.
    warm: bool,
    /// Deadlines missed in a row.
    missed: u32,
}

impl Pace {
    pub(crate) fn new(floor: Duration) -> Pace {
        Pace { floor, passes: VecDeque::with_capacity(RECENT), tokens: VecDeque::with_capacity(RECENT), warm: false, missed: 0 }
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
        let (recent, time) = if tokens < CHUNK { (&mut self.passes, took) } else { (&mut self.tokens, took / tokens) };
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(time);
    }

    /// How long a step of so many tokens may take.
    pub(crate) fn deadline(&self, tokens: u32) -> Duration {
        let slowest = |recent: &VecDeque<Duration>| recent.iter().max().copied().unwrap_or_default();
        let expected = slowest(&self.passes).saturating_add(slowest(&self.tokens).saturating_mul(tokens));
        let floor = if self.warm { self.floor } else { self.floor.saturating_mul(FIRST) };
        let deadline = expected.saturating_mul(PATIENCE).min(self.floor.saturating_mul(CEILING)).max(floor);
        deadline.saturating_mul(1 << self.missed.min(LONGER_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_deadline_follows_the_slowest_recent_steps() {
        let mut pace = Pace::new(ms(1000));
        assert_eq!(pace.deadline(500), ms(4000), "nothing is known, and the first step may take longer");
        pace.done(4, ms(150));
        assert_eq!((pace.deadline(4), pace.deadline(500)), (ms(1500), ms(1500)), "one pass says nothing of what a token takes");
        pace.done(100, ms(200));
        assert_eq!((pace.deadline(4), pace.deadline(500)), (ms(1580), ms(11_500)));
        pace.done(4, ms(10));
        assert_eq!(pace.deadline(4), ms(1580), "the slowest counts, not the last");
        pace.new_life();
        assert_eq!((pace.deadline(4), pace.deadline(500)), (ms(4000), ms(11_500)));
        for _ in 0..RECENT {
            pace.done(1, ms(2));
        }
        assert_eq!(pace.deadline(1), ms(1000), "long ago is forgotten");
    }

    #[test]
    fn missed_deadlines_grow_until_a_step_is_done() {
        let mut pace = Pace::new(ms(1000));
        pace.hung();
        pace.hung();
        assert_eq!(pace.deadline(4), ms(16_000));
        pace.done(4, ms(1));
        assert_eq!(pace.deadline(4), ms(1000));
    }

    #[test]
    fn a_step_that_stood_still_does_not_excuse_the_next() {
        let mut pace = Pace::new(ms(1000));
        pace.done(512, ms(3_600_000));
        pace.done(1, ms(3_600_000));
        assert_eq!(pace.deadline(512), ms(20_000));
        assert_eq!(Pace::new(Duration::MAX).deadline(512), Duration::MAX, "whatever is asked for");
    }
}
