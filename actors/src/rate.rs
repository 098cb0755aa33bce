//! How fast requests end: what `Retry-After` is computed from. Pure: instants come as arguments.

use std::time::{Duration, Instant};

/// The window that the rate is taken over, roughly: older requests count less and less.
const WINDOW: Duration = Duration::from_secs(60);
/// Nobody is told to wait longer than this.
const RETRY_AFTER_S_MAX: u32 = 300;

/// An exponentially fading count of finished requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    finished: f64,
    as_of: Instant,
}

impl Rate {
    pub(crate) fn new(now: Instant) -> Rate {
        Rate { finished: 0.0, as_of: now }
    }

    pub(crate) fn finished(&mut self, now: Instant) {
        self.finished = self.faded(now) + 1.0;
        self.as_of = now;
    }

    /// Seconds after which `waiting` requests will have gone at the present rate. Before anything has finished: 1.
    pub(crate) fn retry_after_s(&self, waiting: u32, now: Instant) -> u32 {
        let per_second = self.faded(now) / WINDOW.as_secs_f64();
        if per_second <= 0.0 {
            return 1;
        }
        // Saturating: a rate faded to almost nothing asks for the longest wait.
        ((f64::from(waiting) / per_second).ceil() as u32).clamp(1, RETRY_AFTER_S_MAX)
    }

    fn faded(&self, now: Instant) -> f64 {
        let age = now.saturating_duration_since(self.as_of).as_secs_f64();
        self.finished * (-age / WINDOW.as_secs_f64()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_queue_and_a_slower_service_mean_a_longer_wait() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        assert_eq!(rate.retry_after_s(100, start), 1);
        for _ in 0..60 {
            rate.finished(start);
        }
        // 60 in the last minute is one a second.
        assert_eq!(rate.retry_after_s(10, start), 10);
        assert_eq!(rate.retry_after_s(0, start), 1);
        assert!(rate.retry_after_s(10, start + WINDOW) > 20);
        assert_eq!(rate.retry_after_s(10, start + WINDOW * 20), RETRY_AFTER_S_MAX);
    }
}
