//! How numbers, times, ranges and lists of rates are written on the command line. Pure.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A time in milliseconds, shown with the unit that suits it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Milliseconds(pub f64);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 1000.0 { write!(f, "{}s", self.0 / 1000.0) } else { write!(f, "{}ms", self.0) }
    }
}

const DAY_MS: f64 = 86_400_000.0;

/// A time with its unit: us, ms, s or m.
pub fn milliseconds(text: &str) -> Result<Milliseconds, String> {
    // `ms` before `s`, which it ends with.
    let units = [("us", 0.001), ("ms", 1.0), ("s", 1000.0), ("m", 60_000.0)];
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor))).ok_or_else(|| format!("`{text}` has no unit: us, ms, s or m"))?;
    let value = number.trim().parse::<f64>().map_err(|_| format!("`{number}` is not a number"))? * factor;
    if (0.0..=DAY_MS).contains(&value) { Ok(Milliseconds(value)) } else { Err(format!("`{text}` must be from 0 to a day")) }
}

fn within(text: &str, low: f64, high: f64) -> Result<f64, String> {
    let value: f64 = text.trim().parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (low..=high).contains(&value) { Ok(value) } else { Err(format!("`{text}` must be from {low} to {high}")) }
}

/// Arrivals a second: few enough that gaps are not below a microsecond, which no client keeps.
pub fn rate(text: &str) -> Result<f64, String> {
    within(text, 1e-6, 1e6)
}

/// How much faster than it was recorded.
pub fn factor(text: &str) -> Result<f64, String> {
    within(text, 1e-6, 1e6)
}

/// A shape of gamma arrivals. Below this nearly all gaps are smaller than a number can be.
pub fn burstiness(text: &str) -> Result<f64, String> {
    within(text, 0.01, 1e6)
}

pub fn bytes_per_s(text: &str) -> Result<f64, String> {
    within(text, 1.0, 1e9)
}

/// Seconds, a day at most.
pub fn seconds(text: &str) -> Result<f64, String> {
    within(text.strip_suffix('s').unwrap_or(text), 0.001, DAY_MS / 1e3)
}

/// 0 to 1.
pub fn fraction(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err("it must be from 0 to 1".into()) }
}

/// 0 to 100.
pub fn temperature(text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=100.0).contains(&value) { Ok(value) } else { Err("it must be from 0 to 100".into()) }
}

/// `MIN..MAX`, both included, or one number for both. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Span {
    pub min: u32,
    pub max: u32,
}

/// Far above any context: a request of more is a mistake, and building its text takes the client's memory.
const SPAN_MAX: u32 = 10_000_000;

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let number = |part: &str| match part.trim().parse() {
            Ok(n) if (1..=SPAN_MAX).contains(&n) => Ok(n),
            _ => Err(format!("`{}` is not a whole number from 1 to {SPAN_MAX}", part.trim())),
        };
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let span = Span { min: number(min)?, max: number(max)? };
        if span.min <= span.max { Ok(span) } else { Err(format!("`{text}`: {} is more than {}", span.min, span.max)) }
    }
}

/// `FROM..TO` arrivals a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    pub from_per_s: f64,
    pub to_per_s: f64,
}

impl FromStr for Ramp {
    type Err = String;

    fn from_str(text: &str) -> Result<Ramp, String> {
        let (from, to) = text.split_once("..").ok_or_else(|| format!("`{text}` is not FROM..TO, such as 1..10"))?;
        Ok(Ramp { from_per_s: rate(from)?, to_per_s: rate(to)? })
    }
}

/// Rates to run one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep(pub Vec<f64>);

const SWEEP_MAX: usize = 100;

impl FromStr for Sweep {
    type Err = String;

    /// `0.5,1,2,4`, or `FROM..TO xN`: N rates from FROM to TO, each the same multiple of the one before.
    fn from_str(text: &str) -> Result<Sweep, String> {
        let Some((from, rest)) = text.split_once("..") else {
            let rates = text.split(',').map(rate).collect::<Result<Vec<f64>, String>>()?;
            return if rates.len() <= SWEEP_MAX { Ok(Sweep(rates)) } else { Err(format!("{} rates are more than {SWEEP_MAX}", rates.len())) };
        };
        let form = || format!("`{text}` is not FROM..TO xN with N from 2 to {SWEEP_MAX}, such as 0.5..8 x5");
        let (to, count) = rest.split_once('x').ok_or_else(form)?;
        let (from, to) = (rate(from)?, rate(to)?);
        let count: usize = count.trim().parse().ok().filter(|n| (2..=SWEEP_MAX).contains(n)).ok_or_else(form)?;
        let step = |i: usize| from * (to / from).powf(i as f64 / (count - 1) as f64);
        // Three digits: a rate is written into tables, and the ends are what was asked for.
        let rounded = |value: f64| if value >= 1.0 { (value * 1e3).round() / 1e3 } else { value };
        Ok(Sweep(
            (0..count)
                .map(|i| {
                    if i == 0 {
                        from
                    } else if i == count - 1 {
                        to
                    } else {
                        rounded(step(i))
                    }
                })
                .collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_a_list_or_a_range_with_a_count() {
        for (text, expect) in [
            ("0.5,1,2,4", vec![0.5, 1.0, 2.0, 4.0]),
            ("3", vec![3.0]),
            ("1, 2", vec![1.0, 2.0]),
            ("1..8 x4", vec![1.0, 2.0, 4.0, 8.0]),
            ("8..1x4", vec![8.0, 4.0, 2.0, 1.0]),
            ("2..2x2", vec![2.0, 2.0]),
        ] {
            assert_eq!(text.parse(), Ok(Sweep(expect)), "{text}");
        }
        for (text, why) in [
            ("", "not a number"),
            ("1,,2", "not a number"),
            ("1,0", "from 0.000001 to 1000000"),
            ("1,-2", "from 0.000001"),
            ("1,inf", "from 0.000001"),
            ("1..8", "FROM..TO xN"),
            ("1..8x1", "N from 2 to 100"),
            ("1..8x101", "N from 2 to 100"),
            ("0..8x3", "from 0.000001"),
            ("1..9999999x3", "1000000"),
        ] {
            let error = text.parse::<Sweep>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn spans_and_ramps_have_two_ends() {
        assert_eq!("3..9".parse(), Ok(Span { min: 3, max: 9 }));
        assert_eq!("7".parse(), Ok(Span { min: 7, max: 7 }));
        for text in ["", "0..3", "9..3", "a..b", "1..", "..4", "1..99999999", "-1..4"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
        assert_eq!("0.5..10".parse(), Ok(Ramp { from_per_s: 0.5, to_per_s: 10.0 }));
        for text in ["", "5", "0..3", "1..x"] {
            assert!(text.parse::<Ramp>().is_err(), "{text}");
        }
    }

    #[test]
    fn seconds_may_have_their_unit() {
        assert_eq!((seconds("1.5"), seconds("30s")), (Ok(1.5), Ok(30.0)));
        for text in ["0", "-1", "1m", "NaN", "90000", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
