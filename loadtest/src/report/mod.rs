//! What the load test found: setting and runs, as text for people, JSON for machines, and a page.

pub mod figures;
pub mod parts;
pub mod spread;
mod text;

pub use figures::{Run, TokensFrom};

use crate::load::arrivals::Arrivals;
use crate::load::keys::Key;
use crate::load::slo::Slo;
use crate::load::units::Span;
use crate::load::workload::{Habits, Shape};
use serde::Serialize;

/// Of the JSON. A field that is added does not change it; one that goes away or means something else does.
pub const VERSION: u32 = 2;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub version: u32,
    pub setting: Setting,
    /// One, or of a sweep one a rate.
    pub runs: Vec<Run>,
}

/// How the load was put on, repeated so that a report can be read alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    pub url: String,
    pub model: String,
    #[serde(rename = "loop")]
    pub pattern: Pattern,
    pub prompts: Prompts,
    pub requests: Option<u32>,
    pub duration_s: Option<f64>,
    pub warmup: u32,
    pub warmup_s: Option<f64>,
    pub max_tokens: u32,
    #[serde(flatten)]
    pub shape: Shape,
    pub temperature: f32,
    pub seed: u64,
    pub ignore_eos: bool,
    #[serde(flatten)]
    pub habits: Habits,
    pub slow_reader_bytes_per_s: f64,
    pub timeout_s: u64,
    pub keys: Vec<Key>,
    pub slo: Option<Slo>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Pattern {
    Closed {
        concurrency: usize,
    },
    /// With one rate a run.
    Open {
        arrivals: Arrivals,
        in_flight_max: usize,
    },
    Trace {
        file: String,
        speed: f64,
        in_flight_max: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "from")]
pub enum Prompts {
    BuiltIn,
    File { file: String },
    Random { words: Span },
    Trace,
}

impl Report {
    /// Nothing failed, and not all were refused. Some refusals are what a server above its capacity owes its clients.
    pub fn ok(&self) -> bool {
        let sum = |count: fn(&Run) -> usize| self.runs.iter().map(count).sum::<usize>();
        sum(|run| run.failed) == 0 && (sum(|run| run.refused) == 0 || sum(|run| run.done + run.left) > 0)
    }

    /// As `--json` writes it: on one line, because most of it are rows.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("numbers here are finite and keys are strings")
    }

    /// Runs are compared by their rates.
    pub fn is_sweep(&self) -> bool {
        self.runs.len() > 1
    }
}
