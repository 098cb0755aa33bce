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
/// A first chunk may take so many more as it has times this many tokens, while nothing is known of what a token takes.
const FIRST_TOKENS: u32 = 256;
/// But no step may take longer than so many: one that took long because its machine stood still must not excuse the next.
const CEILING: u32 = 20;
/// Each deadline missed in a row makes the next one at least twice as many floors, so many times at most. Should the fault lie with the
/// deadline, the next one must not fail for the same reason.
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
    /// The slowest load so far.
    load: Option<Duration>,
    missed_loads: u32,
}

impl Pace {
    pub(crate) fn new(floor: Duration) -> Pace {
        Pace { floor, passes: VecDeque::with_capacity(RECENT), tokens: VecDeque::with_capacity(RECENT), warm: false, missed: 0, load: None, missed_loads: 0 }
    }

    /// A new life: what steps took still says what they will take.
    pub(crate) fn new_life(&mut self) {
        self.warm = false;
    }

    /// A step missed its deadline.
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

    pub(crate) fn loaded(&mut self, took: Duration) {
        self.load = self.load.max(Some(took));
        self.missed_loads = 0;
    }

    pub(crate) fn load_hung(&mut self) {
        self.missed_loads += 1;
    }

    /// How long loading may take: `most` until it is known what it takes, then a multiple of that.
    pub(crate) fn load_deadline(&self, most: Duration) -> Duration {
        let Some(load) = self.load else { return most };
        let known = load.saturating_mul(PATIENCE).max(self.floor.saturating_mul(FIRST));
        known.saturating_mul(1 << self.missed_loads.min(LONGER_MAX)).min(most)
    }

    /// How long a step of so many tokens may take.
    pub(crate) fn deadline(&self, tokens: u32) -> Duration {
        let slowest = |recent: &VecDeque<Duration>| recent.iter().max().copied();
        let pass = slowest(&self.passes);
        // Where no chunk is known, no token of one takes longer than a pass does.
        let token = slowest(&self.tokens).or(pass.filter(|_| tokens >= CHUNK)).unwrap_or_default();
        let expected = pass.unwrap_or_default().saturating_add(token.saturating_mul(tokens));
        let first = if self.tokens.is_empty() { FIRST.saturating_add(tokens / FIRST_TOKENS).min(CEILING) } else { FIRST };
        let floors = (if self.warm { 1 } else { first }).max(1 << self.missed.min(LONGER_MAX));
        expected.saturating_mul(PATIENCE).min(self.floor.saturating_mul(CEILING)).max(self.floor.saturating_mul(floors))
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
        assert_eq!((pace.deadline(4), pace.deadline(600)), (ms(4000), ms(6000)), "nothing is known, and the first step may take longer");
        assert_eq!(pace.deadline(100_000), ms(20_000));
        pace.done(4, ms(15));
        assert_eq!((pace.deadline(4), pace.deadline(99)), (ms(1000), ms(15_000)), "no token takes longer than a pass");
        pace.done(4, ms(150));
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
        for deadline in [4, 4, 4, 8, 16, 32, 64, 64] {
            assert_eq!(pace.deadline(4), ms(1000 * deadline), "the first step of a life that follows so many hangs");
            pace.hung();
            pace.new_life();
        }
        pace.done(4, ms(1));
        assert_eq!(pace.deadline(4), ms(1000));
    }

    #[test]
    fn loading_again_may_take_a_multiple_of_what_it_took() {
        let most = ms(1_800_000);
        let mut pace = Pace::new(ms(30_000));
        assert_eq!(pace.load_deadline(most), most);
        pace.loaded(ms(20_000));
        pace.loaded(ms(5000));
        assert_eq!(pace.load_deadline(most), ms(200_000), "the slowest counts");
        pace.load_hung();
        assert_eq!((pace.load_deadline(most), pace.load_deadline(ms(1000))), (ms(400_000), ms(1000)));
        pace.loaded(ms(1));
        assert_eq!(pace.load_deadline(most), ms(200_000));
        let mut quick = Pace::new(ms(30_000));
        quick.loaded(ms(1));
        assert_eq!(quick.load_deadline(most), ms(120_000));
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
