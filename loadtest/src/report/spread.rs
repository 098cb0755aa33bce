//! Many durations as a few figures. Pure.

use serde::Serialize;
use std::time::Duration;

/// Percentiles by nearest rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub count: usize,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

/// Milliseconds, sorted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sorted(Vec<f64>);

/// Steps of a distribution's curve: half a percent each.
const STEPS: usize = 200;

impl Sorted {
    pub fn of(values: impl IntoIterator<Item = Duration>) -> Sorted {
        let mut ms: Vec<f64> = values.into_iter().map(ms).collect();
        ms.sort_by(f64::total_cmp);
        Sorted(ms)
    }

    /// The smallest value that at least `part` of `whole` of all values do not exceed.
    fn rank(&self, part: usize, whole: usize) -> f64 {
        self.0[(part * self.0.len()).div_ceil(whole).max(1) - 1]
    }

    /// None of no values.
    pub fn spread(&self) -> Option<Spread> {
        let (count, max) = (self.0.len(), *self.0.last()?);
        let percent = |percent: usize| self.rank(percent, 100);
        let mean = self.0.iter().sum::<f64>() / count as f64;
        Some(Spread { count, mean, p50: percent(50), p90: percent(90), p95: percent(95), p99: percent(99), max })
    }

    /// The values at 0, 0.5, 1, … 100 percent; none of no values.
    pub fn quantiles(&self) -> Vec<f64> {
        if self.0.is_empty() { Vec::new() } else { (0..=STEPS).map(|step| round(self.rank(step, STEPS))).collect() }
    }
}

pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// To microseconds, below which nothing here is measured.
pub fn round(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let sorted = |n: u64| Sorted::of((1..=n).rev().map(Duration::from_secs));
        for (n, p50, p95, p99) in [(1, 1, 1, 1), (2, 1, 2, 2), (10, 5, 10, 10), (100, 50, 95, 99), (200, 100, 190, 198)] {
            let s = sorted(n).spread().unwrap();
            let expect = [p50, p95, p99, n].map(|v| v as f64 * 1e3);
            assert_eq!([s.p50, s.p95, s.p99, s.max], expect, "n {n}");
            assert_eq!((s.count, s.mean), (n as usize, (n + 1) as f64 * 500.0), "n {n}");
        }
        assert_eq!(Sorted::default().spread(), None);
    }

    #[test]
    fn a_curve_goes_from_the_least_to_the_most() {
        let curve = Sorted::of((1..=1000).map(Duration::from_millis)).quantiles();
        assert_eq!((curve.len(), curve[0], curve[100], curve[200]), (201, 1.0, 500.0, 1000.0));
        assert!(curve.is_sorted());
        assert!(Sorted::default().quantiles().is_empty());
    }
}
