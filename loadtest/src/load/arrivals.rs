//! When requests are due in an open loop: seeded gaps of mean 1, and a rate that says how fast they pass. Pure.

use super::draw::{self, Purpose};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// How gaps between arrivals vary.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", tag = "process")]
pub enum Arrivals {
    /// Exponential gaps: clients that know nothing of each other.
    Poisson,
    /// Gaps of a gamma distribution with this shape, as `--burstiness` of vLLM's bench has it: 1 is Poisson, less comes in bursts,
    /// more comes evenly. The coefficient of variation is `1 / sqrt(burstiness)`.
    Gamma { burstiness: f64 },
    /// All gaps the same.
    Constant,
}

/// Arrivals a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Rate {
    Steady {
        per_s: f64,
    },
    /// Grows or falls in a straight line, and stays at `to` after `over_s` seconds.
    Ramp {
        from_per_s: f64,
        to_per_s: f64,
        over_s: f64,
    },
}

impl Rate {
    /// How many arrivals are due in the first `seconds`.
    pub fn arrivals(self, seconds: f64) -> f64 {
        match self {
            Rate::Steady { per_s } => per_s * seconds,
            Rate::Ramp { from_per_s: from, to_per_s: to, over_s } => {
                let t = seconds.min(over_s);
                from * t + (to - from) * t * t / (2.0 * over_s) + to * (seconds - t)
            }
        }
    }

    /// When the `arrivals`th arrival is due, in seconds, if all gaps were the same: the inverse of the rate's integral.
    fn at(self, arrivals: f64) -> f64 {
        match self {
            Rate::Steady { per_s } => arrivals / per_s,
            Rate::Ramp { from_per_s: from, to_per_s: to, over_s } => {
                let on_ramp = (from + to) / 2.0 * over_s;
                if arrivals >= on_ramp {
                    return over_s + (arrivals - on_ramp) / to;
                }
                // from t + (to - from) t² / (2 over) = arrivals, solved so that nothing cancels where the ramp is flat.
                let root = (from * from + 2.0 * (to - from) * arrivals / over_s).max(0.0).sqrt();
                2.0 * arrivals / (from + root)
            }
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Steady { per_s } => write!(f, "{per_s}/s"),
            Rate::Ramp { from_per_s, to_per_s, .. } => write!(f, "{from_per_s}/s to {to_per_s}/s"),
        }
    }
}

/// Offsets of `count` arrivals from the start of the run. Even ones begin at once, random ones with a gap.
///
/// Random gaps are stretched, all by the same factor, so that the arrivals fill the time that the rate gives them: else a short run's
/// load would not be the one asked for, and the rates of a sweep could not be compared (vLLM's bench does the same). Of a Poisson
/// process that makes one that is known to have `count` arrivals in that time.
pub fn offsets(arrivals: Arrivals, rate: Rate, seed: u64, count: usize) -> impl Iterator<Item = Duration> + Send {
    // One gap more: after the last arrival there is time, too.
    let drawn: f64 = gaps(arrivals, seed).take(count + 1).sum();
    // The burstiest gaps may be too small for a number, all of them.
    let stretch = if drawn > 0.0 { count as f64 / drawn } else { 1.0 };
    let mut passed = 0.0;
    gaps(arrivals, seed).take(count).enumerate().map(move |(i, gap)| {
        passed += gap;
        let due = match arrivals {
            // Not a sum, which would drift.
            Arrivals::Constant => i as f64,
            Arrivals::Poisson | Arrivals::Gamma { .. } => passed * stretch,
        };
        Duration::from_secs_f64(rate.at(due))
    })
}

/// Mean 1, without an end.
fn gaps(arrivals: Arrivals, seed: u64) -> impl Iterator<Item = f64> + Send {
    let mut rng = fastrand::Rng::with_seed(draw::bits(seed, Purpose::Arrivals, 0));
    std::iter::repeat_with(move || match arrivals {
        Arrivals::Constant => 1.0,
        Arrivals::Poisson => exponential(&mut rng),
        Arrivals::Gamma { burstiness } => gamma(&mut rng, burstiness) / burstiness,
    })
}

/// Mean 1, by inversion.
fn exponential(rng: &mut fastrand::Rng) -> f64 {
    // 1 - u is never 0.
    -(1.0 - rng.f64()).ln()
}

/// Mean and variance `shape` (Marsaglia and Tsang 2000; below 1 by their note on a power of a uniform draw).
fn gamma(rng: &mut fastrand::Rng, shape: f64) -> f64 {
    if shape < 1.0 {
        let draw = gamma(rng, shape + 1.0);
        return draw * (1.0 - rng.f64()).powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - rng.f64()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// Box and Muller's, one of the pair.
fn normal(rng: &mut fastrand::Rng) -> f64 {
    (2.0 * exponential(rng)).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 40_000;

    /// Between arrivals, in seconds.
    fn apart(arrivals: Arrivals, per_s: f64, seed: u64) -> Vec<f64> {
        let at: Vec<f64> = offsets(arrivals, Rate::Steady { per_s }, seed, COUNT).map(|d| d.as_secs_f64()).collect();
        at.windows(2).map(|w| w[1] - w[0]).collect()
    }

    /// Mean, and coefficient of variation.
    fn moments(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn gaps_have_the_mean_and_the_variation_asked_for() {
        for (arrivals, variation) in [
            (Arrivals::Poisson, 1.0),
            (Arrivals::Gamma { burstiness: 1.0 }, 1.0),
            (Arrivals::Gamma { burstiness: 0.25 }, 2.0),
            (Arrivals::Gamma { burstiness: 4.0 }, 0.5),
            (Arrivals::Constant, 0.0),
        ] {
            for per_s in [0.5, 30.0] {
                let (mean, seen) = moments(&apart(arrivals, per_s, 11));
                // Five standard deviations of the mean; the variation of the burstiest converges slowest.
                assert!((mean * per_s - 1.0).abs() <= 5.0 * variation / (COUNT as f64).sqrt() + 1e-6, "{arrivals:?} at {per_s}: mean {mean}");
                assert!((seen - variation).abs() <= 0.05 * variation + 1e-6, "{arrivals:?} at {per_s}: variation {seen}");
            }
        }
    }

    #[test]
    fn a_seed_decides_the_arrivals() {
        for arrivals in [Arrivals::Poisson, Arrivals::Gamma { burstiness: 0.5 }] {
            assert_eq!(apart(arrivals, 1.0, 3), apart(arrivals, 1.0, 3));
            assert_ne!(apart(arrivals, 1.0, 3), apart(arrivals, 1.0, 4));
        }
    }

    #[test]
    fn even_arrivals_are_where_they_are_intended() {
        let at: Vec<Duration> = offsets(Arrivals::Constant, Rate::Steady { per_s: 4.0 }, 0, 5).collect();
        assert_eq!(at, [0, 250, 500, 750, 1000].map(Duration::from_millis));
        // 1 a second to 3 a second over 4 seconds: 8 arrivals, the half of the time after 3 of them; then 3 a second.
        let ramp = Rate::Ramp { from_per_s: 1.0, to_per_s: 3.0, over_s: 4.0 };
        for (arrivals, at) in [(0.0, 0.0), (3.0, 2.0), (8.0, 4.0), (11.0, 5.0)] {
            assert!((ramp.at(arrivals) - at).abs() < 1e-12, "{arrivals}: {}", ramp.at(arrivals));
            assert!((ramp.arrivals(at) - arrivals).abs() < 1e-12, "{at}: {}", ramp.arrivals(at));
        }
        let falling = Rate::Ramp { from_per_s: 3.0, to_per_s: 1.0, over_s: 4.0 };
        assert!((falling.at(5.0) - 2.0).abs() < 1e-12);
        let flat = Rate::Ramp { from_per_s: 2.0, to_per_s: 2.0, over_s: 4.0 };
        assert!((flat.at(5.0) - 2.5).abs() < 1e-12);
    }

    #[test]
    fn a_run_has_the_load_that_was_asked_for_however_short() {
        for seed in 0..200 {
            for arrivals in [Arrivals::Poisson, Arrivals::Gamma { burstiness: 0.5 }, Arrivals::Gamma { burstiness: 0.01 }, Arrivals::Constant] {
                let at: Vec<Duration> = offsets(arrivals, Rate::Steady { per_s: 5.0 }, seed, 10).collect();
                assert!(at.len() == 10 && at.is_sorted() && at[9] <= Duration::from_secs(2), "{arrivals:?}, seed {seed}: {at:?}");
            }
        }
        assert_eq!(offsets(Arrivals::Poisson, Rate::Steady { per_s: 5.0 }, 0, 0).count(), 0);
    }

    #[test]
    fn seeds_do_not_begin_alike() {
        let sums: Vec<f64> = (0..1000).map(|seed| gaps(Arrivals::Poisson, seed).take(25).sum()).collect();
        let (mean, variation) = moments(&sums);
        // 25 exponential gaps: mean 25, standard deviation 5; five standard deviations of the mean of a thousand.
        assert!((mean - 25.0).abs() < 5.0 * 5.0 / 1000f64.sqrt() && (variation - 0.2).abs() < 0.03, "{mean}, {variation}");
    }

    #[test]
    fn a_ramp_of_random_arrivals_has_as_many_in_each_part_as_its_rate_says() {
        let ramp = Rate::Ramp { from_per_s: 10.0, to_per_s: 90.0, over_s: 400.0 };
        let at: Vec<f64> = offsets(Arrivals::Poisson, ramp, 5, ramp.arrivals(400.0) as usize).map(|d| d.as_secs_f64()).collect();
        assert!(at.len() == 20_000 && at.iter().all(|t| (0.0..400.0).contains(t)));
        for (from, to, expect) in [(0.0, 100.0, 2000.0), (100.0, 300.0, 10_000.0), (300.0, 400.0, 8000.0f64)] {
            let seen = at.iter().filter(|&&t| (from..to).contains(&t)).count() as f64;
            assert!((seen - expect).abs() <= 5.0 * expect.sqrt(), "{from} to {to}: {seen} of {expect}");
        }
    }
}
