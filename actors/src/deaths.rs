//! When a lost model is opened again, and from when on its losses are too many. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Losses within so long are counted together.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Once losses are too many: whoever is refused comes again after some seconds, and would only see the next one.
const PAUSE_IF_MANY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Deaths {
    /// So many within [`WINDOW`] are too many.
    max: u32,
    recent: VecDeque<Instant>,
    /// Lives in a row in which no step was done.
    barren: u32,
}

impl Deaths {
    pub(crate) fn new(max: u32) -> Deaths {
        Deaths { max: max.max(1), recent: VecDeque::new(), barren: 0 }
    }

    /// A step was done: this life is good for something.
    pub(crate) fn progress(&mut self) {
        self.barren = 0;
    }

    /// The model was lost. Gives how long to wait before it is opened again: not at all after a life that did something, and else longer
    /// each time.
    pub(crate) fn died(&mut self, now: Instant) -> Duration {
        self.recent.push_back(now);
        while self.recent.len() > self.max as usize || self.recent.front().is_some_and(|&at| now.saturating_duration_since(at) >= WINDOW) {
            self.recent.pop_front();
        }
        self.barren += 1;
        let pause = match self.barren {
            0 | 1 => Duration::ZERO,
            barren => FIRST_PAUSE.saturating_mul(1 << (barren - 2).min(10)).min(LONGEST_PAUSE),
        };
        if self.too_many() { pause.max(PAUSE_IF_MANY) } else { pause }
    }

    /// With the last loss the model was lost so often that nobody should wait for it: within so long, or, where losing it takes longer, in
    /// a row without a step done.
    pub(crate) fn too_many(&self) -> bool {
        self.recent.len() >= self.max as usize || self.barren >= self.max
    }

    /// In words.
    pub(crate) fn many(&self) -> String {
        if self.recent.len() >= self.max as usize {
            format!("lost {} times within {} s", self.max, WINDOW.as_secs())
        } else {
            format!("lost {} times without a step done", self.barren)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_within_a_minute_are_too_many() {
        let start = Instant::now();
        let after = |s| start + Duration::from_secs(s);
        // Each row: seconds at which the model dies, and whether that is too often then.
        let rows: &[(&[u64], bool)] = &[
            (&[], false),
            (&[0, 1], false),
            (&[0, 1, 2], true),
            (&[0, 30, 59], true),
            (&[0, 30, 60], false),
            (&[0, 30, 60, 80], true),
            (&[0, 1, 2, 100], false),
        ];
        for (times, many) in rows {
            let mut deaths = Deaths::new(3);
            for &s in *times {
                deaths.progress();
                deaths.died(after(s));
            }
            assert_eq!(deaths.too_many(), *many, "{times:?}");
        }
    }

    #[test]
    fn pauses_grow_while_nothing_is_done() {
        let mut deaths = Deaths::new(3);
        let now = Instant::now();
        let pauses: Vec<u64> = (0..8).map(|_| deaths.died(now).as_secs()).collect();
        assert_eq!(pauses, [0, 1, 5, 5, 8, 16, 30, 30]);
        deaths.progress();
        assert_eq!(deaths.died(now), PAUSE_IF_MANY);
        assert!(deaths.recent.len() <= 3, "no more is remembered than is needed");
        let later = |windows| now + windows * WINDOW;
        deaths.progress();
        assert_eq!((deaths.died(later(1)), deaths.too_many()), (Duration::ZERO, false));
        assert_eq!((deaths.died(later(2)).as_secs(), deaths.too_many()), (1, false));
        // However long each of them takes.
        assert_eq!((deaths.died(later(3)).as_secs(), deaths.too_many(), deaths.many().as_str()), (5, true, "lost 3 times without a step done"));
    }
}
