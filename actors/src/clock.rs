//! When things happened to one request, and the intervals that are reported of it. Pure: instants come as arguments.

use crate::ask::Timings;
use std::time::{Duration, Instant};

/// The moments of one request's life.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    asked: Instant,
    admitted: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
}

impl Clock {
    pub(crate) fn new(asked: Instant) -> Clock {
        Clock { asked, admitted: None, first_token: None, last_token: None }
    }

    /// The row got its blocks. Resuming after a preemption is not a second admission.
    pub(crate) fn admitted(&mut self, at: Instant) {
        self.admitted.get_or_insert(at);
    }

    /// A token came. Since the one before; None for the first.
    pub(crate) fn token(&mut self, at: Instant) -> Option<Duration> {
        self.first_token.get_or_insert(at);
        self.last_token.replace(at).map(|last| at.saturating_duration_since(last))
    }

    pub(crate) fn asked(&self) -> Instant {
        self.asked
    }

    pub(crate) fn since_asked(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.asked)
    }

    /// Arrival to admission; None for a row that never was admitted.
    pub(crate) fn queue(&self) -> Option<Duration> {
        Some(self.since_asked(self.admitted?))
    }

    /// Admission to the first token.
    pub(crate) fn prefill(&self) -> Option<Duration> {
        Some(self.first_token?.saturating_duration_since(self.admitted?))
    }

    /// First token to the last.
    pub(crate) fn decode(&self) -> Option<Duration> {
        Some(self.last_token?.saturating_duration_since(self.first_token?))
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.admitted.is_some()
    }

    pub(crate) fn has_token(&self) -> bool {
        self.first_token.is_some()
    }

    /// Everything in milliseconds; what did not happen is 0.
    pub(crate) fn timings(&self, end: Instant, counts: &scheduler::Counts, seed: u64) -> Timings {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        Timings {
            queue_ms: ms(self.queue().unwrap_or_else(|| self.since_asked(end))),
            prefill_ms: self.prefill().map_or(0.0, ms),
            decode_ms: self.decode().map_or(0.0, ms),
            ttft_ms: self.first_token.map_or(0.0, |at| ms(self.since_asked(at))),
            preemptions: counts.preemptions,
            restarts: counts.restarts,
            seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_lie_between_the_right_moments() {
        let asked = Instant::now();
        let at = |ms| asked + Duration::from_millis(ms);
        let mut clock = Clock::new(asked);
        assert_eq!(clock.queue(), None);
        assert_eq!((clock.prefill(), clock.decode()), (None, None));
        clock.admitted(at(10));
        clock.admitted(at(500));
        assert_eq!(clock.token(at(30)), None);
        assert_eq!(clock.token(at(35)), Some(Duration::from_millis(5)));
        assert_eq!(clock.token(at(50)), Some(Duration::from_millis(15)));
        let counts = scheduler::Counts { preemptions: 2, restarts: 1, ..Default::default() };
        let t = clock.timings(at(60), &counts, 9);
        let want = Timings { queue_ms: 10.0, prefill_ms: 20.0, decode_ms: 20.0, ttft_ms: 30.0, preemptions: 2, restarts: 1, seed: 9 };
        assert_eq!(t, want);
    }
}
