//! A minute's worth, counted: a bucket that fills at the rate, holds one minute of it, and may be overdrawn by what only comes to light
//! later, as the tokens of an answer do. Pure: the time comes as an argument.

use std::time::{Duration, Instant};

const MINUTE_S: f64 = 60.0;

#[derive(Debug)]
pub(crate) struct Bucket {
    per_minute: f64,
    level: f64,
    at: Instant,
}

impl Bucket {
    /// Full.
    pub(crate) fn new(per_minute: u32, now: Instant) -> Bucket {
        Bucket { per_minute: per_minute.into(), level: per_minute.into(), at: now }
    }

    fn fill(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.level = (self.level + since * self.per_minute / MINUTE_S).min(self.per_minute);
        self.at = now;
    }

    /// Takes it whether it is there or not.
    pub(crate) fn take(&mut self, amount: f64, now: Instant) {
        self.fill(now);
        self.level -= amount;
    }

    /// How long until `amount` is there; zero if it is.
    pub(crate) fn wait(&mut self, amount: f64, now: Instant) -> Duration {
        self.fill(now);
        Duration::from_secs_f64(((amount - self.level) * MINUTE_S / self.per_minute).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_what_the_rate_says() {
        let start = Instant::now();
        let mut bucket = Bucket::new(6, start);
        for n in 0..6 {
            assert_eq!(bucket.wait(1.0, start), Duration::ZERO, "{n}");
            bucket.take(1.0, start);
        }
        assert_eq!(bucket.wait(1.0, start), Duration::from_secs(10));
        assert_eq!(bucket.wait(1.0, start + Duration::from_secs(4)), Duration::from_secs(6));
        let later = start + Duration::from_secs(3600);
        bucket.take(6.0, later);
        assert_eq!(bucket.wait(1.0, later), Duration::from_secs(10), "an hour saves one minute up");
    }

    #[test]
    fn an_overdraft_is_paid_back_first() {
        let start = Instant::now();
        let mut bucket = Bucket::new(60, start);
        bucket.take(100.0, start);
        assert_eq!(bucket.wait(1.0, start), Duration::from_secs(41));
    }
}
