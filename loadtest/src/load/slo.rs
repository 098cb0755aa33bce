//! Objectives for a request: it is good if it ended well and none of its times is over its limit. Pure.

use super::units::{self, Milliseconds};
use serde::Serialize;
use std::str::FromStr;

/// Limits; those that are not given always hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Slo {
    /// From the intended start to the first text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    /// The request's mean time between pieces of text, as they came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itl_ms: Option<f64>,
    /// From the first text to the end, over the tokens after the first: what vLLM's goodput calls tpot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot_ms: Option<f64>,
    /// From the intended start to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e2e_ms: Option<f64>,
}

/// What one request took. What it did not have (a second token, for the time between two) cannot break a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Took {
    pub ttft_ms: Option<f64>,
    pub itl_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2e_ms: Option<f64>,
}

impl Slo {
    /// An answer of one piece has no time between pieces, and holds any limit of that; one without any text has no first one.
    pub fn holds(&self, took: &Took) -> bool {
        let within = |limit: Option<f64>, took: Option<f64>| limit.zip(took).is_none_or(|(limit, took)| took <= limit);
        self.ttft_ms.is_none_or(|limit| took.ttft_ms.is_some_and(|took| took <= limit))
            && within(self.itl_ms, took.itl_ms)
            && within(self.tpot_ms, took.tpot_ms)
            && within(self.e2e_ms, took.e2e_ms)
    }
}

impl FromStr for Slo {
    type Err = String;

    fn from_str(text: &str) -> Result<Slo, String> {
        let mut slo = Slo::default();
        for part in text.split(',') {
            let (name, limit) = part.split_once('=').ok_or_else(|| format!("`{part}` is not NAME=TIME, such as ttft=500ms"))?;
            let place = match name.trim() {
                "ttft" => &mut slo.ttft_ms,
                "itl" => &mut slo.itl_ms,
                "tpot" => &mut slo.tpot_ms,
                "e2e" => &mut slo.e2e_ms,
                other => return Err(format!("`{other}` is none of ttft, itl, tpot, e2e")),
            };
            let Milliseconds(limit) = units::milliseconds(limit.trim()).map_err(|why| format!("{name}: {why}"))?;
            if place.replace(limit).is_some() {
                return Err(format!("{name} is given twice"));
            }
        }
        Ok(slo)
    }
}

impl std::fmt::Display for Slo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let limits = [("ttft", self.ttft_ms), ("itl", self.itl_ms), ("tpot", self.tpot_ms), ("e2e", self.e2e_ms)];
        let given: Vec<String> = limits.iter().filter_map(|(name, limit)| limit.map(|ms| format!("{name} {}", Milliseconds(ms)))).collect();
        f.write_str(&given.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_with_their_units() {
        let slo: Slo = "ttft=500ms,itl=0.1s, e2e=1m".parse().unwrap();
        assert_eq!(slo, Slo { ttft_ms: Some(500.0), itl_ms: Some(100.0), tpot_ms: None, e2e_ms: Some(60_000.0) });
        assert_eq!(slo.to_string(), "ttft 500ms, itl 100ms, e2e 60s");
        assert_eq!("tpot=50us".parse(), Ok(Slo { tpot_ms: Some(0.05), ..Slo::default() }));
        for (text, why) in [
            ("", "NAME=TIME"),
            ("ttft", "NAME=TIME"),
            ("ttft=500", "unit"),
            ("ttft=-5ms", "from 0"),
            ("ttft=1e99s", "to a day"),
            ("ttft=fastms", "not a number"),
            ("ttfb=5ms", "none of ttft, itl, tpot, e2e"),
            ("ttft=5ms,ttft=6ms", "twice"),
            ("ttft=5ms,", "NAME=TIME"),
        ] {
            let error = text.parse::<Slo>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn all_limits_must_hold() {
        let slo: Slo = "ttft=500ms,tpot=100ms,e2e=10s".parse().unwrap();
        let took = |ttft, tpot, e2e| Took { ttft_ms: ttft, itl_ms: Some(1e9), tpot_ms: tpot, e2e_ms: e2e };
        for (took, good) in [
            (took(Some(500.0), Some(100.0), Some(10_000.0)), true),
            (took(Some(500.1), Some(100.0), Some(10_000.0)), false),
            (took(Some(500.0), Some(100.1), Some(10_000.0)), false),
            (took(Some(500.0), Some(100.0), Some(10_001.0)), false),
            (took(Some(1.0), None, Some(1.0)), true),
        ] {
            assert_eq!(slo.holds(&took), good, "{took:?}");
        }
        assert!(Slo::default().holds(&took(Some(1e9), Some(1e9), None)));
    }
}
