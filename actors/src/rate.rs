//! How fast requests end: what `Retry-After` is computed from. Pure: instants come as arguments.

use std::time::{Duration, Instant};

/// The window that the rate is taken over, roughly: older requests count less and less.
const WINDOW: Duration = Duration::from_secs(60);
/// Nobody is told to wait longer than this.
const RETRY_AFTER_S_MAX: u32 = 300;

/// Requests that ended, and the time in which they did, both fading alike. Only time counts in which there was something to do: an hour
/// without requests says nothing of how fast they end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    ended: f64,
    busy_s: f64,
    as_of: Instant,
    busy: bool,
}

impl Rate {
    pub(crate) fn new(now: Instant) -> Rate {
        Rate { ended: 0.0, busy_s: 0.0, as_of: now, busy: false }
    }

    /// A request ended, or was taken back.
    pub(crate) fn ended(&mut self, now: Instant) {
        self.pass(now);
        self.ended += 1.0;
    }

    /// From now on there are requests, or there are none.
    pub(crate) fn busy(&mut self, busy: bool, now: Instant) {
        self.pass(now);
        self.busy = busy;
    }

    /// Seconds after which `here` requests will have gone at the present rate. Before any has ended: as many as they have been here.
    pub(crate) fn retry_after_s(&self, here: u32, now: Instant) -> u32 {
        let mut rate = *self;
        rate.pass(now);
        let wait_s = if rate.ended > 0.0 { f64::from(here) * rate.busy_s / rate.ended } else { rate.busy_s };
        // Saturating: a rate faded to almost nothing asks for the longest wait.
        (wait_s.ceil() as u32).clamp(1, RETRY_AFTER_S_MAX)
    }

    fn pass(&mut self, now: Instant) {
        let passed_s = now.saturating_duration_since(self.as_of).as_secs_f64();
        self.as_of = now;
        if self.busy {
            let window_s = WINDOW.as_secs_f64();
            let kept = (-passed_s / window_s).exp();
            self.ended *= kept;
            self.busy_s = self.busy_s * kept + window_s * (1.0 - kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One ends every `every`, for so long.
    fn after(every: Duration, times: u32) -> (Rate, Instant) {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        rate.busy(true, start);
        (1..=times).for_each(|i| rate.ended(start + every * i));
        (rate, start + every * times)
    }

    #[test]
    fn the_wait_is_what_those_here_will_take_from_the_first_minute_on() {
        for (every_ms, times) in [(500, 8), (2_000, 8), (2_000, 200), (10_000, 5), (100, 3000)] {
            let (rate, now) = after(Duration::from_millis(every_ms), times);
            let truth = (64.0 * every_ms as f64 / 1000.0).min(f64::from(RETRY_AFTER_S_MAX));
            let told = f64::from(rate.retry_after_s(64, now));
            assert!(told >= truth / 1.3 && told <= truth * 1.3 + 1.0, "{told} s for {truth} s, one every {every_ms} ms, {times} times");
        }
    }

    #[test]
    fn idle_time_says_nothing_and_a_standstill_much() {
        let (mut rate, now) = after(Duration::from_secs(1), 60);
        let told = rate.retry_after_s(10, now);
        assert!((10..=12).contains(&told), "{told}");
        rate.busy(false, now);
        assert_eq!(rate.retry_after_s(10, now + WINDOW * 100), told);
        rate.busy(true, now + WINDOW * 100);
        assert!(rate.retry_after_s(10, now + WINDOW * 101) > 2 * told);
        assert_eq!(rate.retry_after_s(10, now + WINDOW * 120), RETRY_AFTER_S_MAX);
    }

    #[test]
    fn before_any_has_ended_the_wait_is_as_long_as_it_was() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        assert_eq!(rate.retry_after_s(100, start), 1);
        rate.busy(true, start);
        assert_eq!(rate.retry_after_s(100, start + Duration::from_secs(20)), 18, "time fades, too");
    }
}
