//! Holds a model against recorded logits of the oracle: how a port of a family is proven, on any device.
//!
//! A folder is what `oracle/tiny.py` writes: config.json, model.safetensors, golden.safetensors with, for each prompt i,
//! `ids_i`, `logits_i` (f32, every position of one solo prefill) and `greedy_i`; or what `oracle/record.py` writes: the same, and for a model of
//! 16 bits `exact_i`, what its weights give in f32.

mod golden;
mod measure;
mod run;

pub use golden::{Golden, Prompt};
pub use measure::Measure;
pub use run::{Layout, Outcome, best, logits, play};

use crate::engine::EngineError;
use crate::mlx::DeviceChoice;
use crate::mlx_engine::{OpenOptions, Opened};
use crate::model::Model;
use crate::weights::Float;
use std::path::Path;

/// One way of running the prompts, and how far it was from the recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub what: String,
    pub measure: Measure,
    /// The largest, over all positions and prompts.
    pub error: f32,
    /// Greedy ids compared equal, and how many there were to compare before one was too close to call.
    pub greedy: Result<usize, String>,
}

impl Line {
    pub fn ok(&self) -> bool {
        self.error <= self.measure.tolerance() && self.greedy.is_ok()
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let greedy = match &self.greedy {
            Ok(n) => format!("{n} greedy ids equal"),
            Err(why) => why.clone(),
        };
        let verdict = if self.ok() { "ok" } else { "FAILED" };
        let (error, tolerance) = (self.error, self.measure.tolerance());
        match self.measure {
            Measure::Spread => write!(f, "{:<16} largest error {error:.2e} of the spread (at most {tolerance:.0e}), {greedy}: {verdict}", self.what),
            Measure::Divergence => write!(f, "{:<16} {error:.2} times the oracle's distance from f32 (at most {tolerance}), {greedy}: {verdict}", self.what),
        }
    }
}

/// Runs every check on one folder.
pub fn check(dir: &Path, device: DeviceChoice, dtype: Option<Float>) -> Result<Vec<Line>, EngineError> {
    let golden = Golden::read(&dir.join("golden.safetensors"))?;
    let mut model = Opened::open(&OpenOptions { path: dir.to_owned(), name: None, device, dtype })?.into_model();
    golden.fits(&model)?;
    model.make_pool(run::blocks(&golden.prompts))?;
    let measure = Measure::of(model.dtype());
    let all: Vec<usize> = (0..golden.prompts.len()).collect();
    let solo: Vec<Vec<usize>> = all.iter().map(|i| vec![*i]).collect();
    let mut lines = Vec::new();
    let way = |what, batches: &[Vec<usize>], chunk, layout| Way { what, batches: batches.to_vec(), chunk, layout };
    let ways = [
        way("solo", &solo, None, Layout::InOrder),
        way("one batch", std::slice::from_ref(&all), None, Layout::InOrder),
        way("chunks of 1", &solo, Some(1), Layout::InOrder),
        way("chunks of 7", &solo, Some(7), Layout::InOrder),
        way("chunks of 32", &solo, Some(32), Layout::InOrder),
        way("scattered blocks", &solo, None, Layout::Scattered),
    ];
    for way in ways {
        lines.push(line(&mut model, &golden, &way, measure)?);
    }
    // Last, because it stays: what `serve --deterministic` runs.
    model.keep_shape()?;
    lines.push(line(&mut model, &golden, &way("fixed passes", &[all], Some(7), Layout::Scattered), measure)?);
    Ok(lines)
}

/// How the prompts are run.
struct Way {
    what: &'static str,
    /// Prompts (by index) that run together.
    batches: Vec<Vec<usize>>,
    /// Tokens of a prompt in one step; None: all.
    chunk: Option<usize>,
    layout: Layout,
}

fn line(model: &mut Model, golden: &Golden, way: &Way, measure: Measure) -> Result<Line, EngineError> {
    let (mut error, mut equal, mut wrong) = (0f32, 0, None);
    for batch in &way.batches {
        let prompts: Vec<&Prompt> = batch.iter().map(|i| &golden.prompts[*i]).collect();
        for (p, out) in prompts.iter().zip(play(model, &prompts, way.chunk, way.layout)?) {
            let e = measure.error(p, &out.logits);
            // NaN must not pass for a small error.
            error = if e.is_nan() { f32::INFINITY } else { error.max(e) };
            match measure.greedy_equal(p, &out) {
                Ok(n) => equal += n,
                Err(why) => wrong = wrong.or(Some(why)),
            }
        }
    }
    Ok(Line { what: way.what.to_owned(), measure, error, greedy: wrong.map_or(Ok(equal), Err) })
}
