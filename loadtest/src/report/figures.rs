//! What one run came to: counts, rates and times, computed from its outcomes. Pure.

use super::parts::{Goodput, KeyFigures, Row, Slow, UnderLoad, tokens};
use super::spread::{Sorted, Spread};
use crate::load::arrivals::Rate;
use crate::load::keys::Key;
use crate::load::slo::Slo;
use crate::outcome::{End, Outcome};
use crate::plain::plain;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// One run. Warm-up is in none of it, except where a field says so. Latencies leave out slow readers, whose times are of their own
/// making.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Of an open loop that has one: conversations due a second.
    pub rate: Option<Rate>,
    /// Sent: `done + left + refused + failed`.
    pub requests: usize,
    /// Streams that came to their end.
    pub done: usize,
    /// Streams that this client left, as told.
    pub left: usize,
    /// Of those done, streams that ended before the moment at which this client was told to leave.
    pub stayed: usize,
    /// 429 or 503 with Retry-After.
    pub refused: usize,
    pub failed: usize,
    /// Requests that waited until fewer were in flight.
    pub delayed: usize,
    /// Failures by kind, and of each kind one message.
    pub errors: BTreeMap<String, Errors>,
    /// Refusals by status, and of each one message.
    pub refusals: BTreeMap<String, Errors>,
    pub finish_reasons: BTreeMap<String, usize>,
    /// First intended start to last end, seconds.
    pub wall_s: f64,
    /// As the server reports them; 0 if it does not.
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    /// By usage where the server gave it, else pieces of text.
    pub output_tokens: u64,
    pub output_tokens_from: TokensFrom,
    pub output_tokens_per_s: f64,
    pub done_per_s: f64,
    /// Of an open loop: rates while requests arrived.
    pub under_load: Option<UnderLoad>,
    /// From when a request was due to when its client began to connect, milliseconds.
    pub late_ms: Option<Spread>,
    /// To the first text, milliseconds, of every stream that had one.
    pub ttft_ms: Option<Spread>,
    /// Between pieces of text, milliseconds.
    pub itl_ms: Option<Spread>,
    /// From the first text to the end over the tokens after the first, milliseconds, of streams that came to their end.
    pub tpot_ms: Option<Spread>,
    /// To the end, milliseconds, of streams that came to it.
    pub e2e_ms: Option<Spread>,
    pub goodput: Option<Goodput>,
    pub slow: Option<Slow>,
    /// A line a key, where keys have names.
    pub keys: Vec<KeyFigures>,
    pub quantiles: Quantiles,
    /// A line a request, in the order of their indices.
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TokensFrom {
    Usage,
    Pieces,
    /// Some streams had usage (those left or cut never do).
    Both,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Errors {
    pub count: usize,
    pub example: String,
}

/// Milliseconds at 0, 0.5, 1, … 100 percent.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Quantiles {
    pub ttft_ms: Vec<f64>,
    pub itl_ms: Vec<f64>,
    pub e2e_ms: Vec<f64>,
}

/// How to read outcomes.
pub struct Reading<'a> {
    pub rate: Option<Rate>,
    pub keys: &'a [Key],
    pub slo: Option<&'a Slo>,
    /// Requests with lower indices are warm-up.
    pub warmup_requests: usize,
    /// And so are those that are due before.
    pub warmup: Duration,
    /// Of an open loop: until when requests arrived.
    pub arrivals_end: Option<Duration>,
}

impl Run {
    pub fn new(mut outcomes: Vec<Outcome>, reading: &Reading<'_>) -> Run {
        outcomes.sort_by_key(|o| o.index);
        let counted: Vec<&Outcome> = outcomes.iter().filter(|o| o.index >= reading.warmup_requests && o.intended >= reading.warmup).collect();
        let usual = || counted.iter().copied().filter(|o| !o.slow);
        let done = || usual().filter(|o| o.done());
        let counts = Counts::of(counted.iter().copied());
        let wall_s = wall(&counted).as_secs_f64();
        let under_load = reading.arrivals_end.and_then(|end| UnderLoad::of(&outcomes, &counted, reading.warmup, end));
        let output_tokens = tokens(counted.iter().copied());
        let usages = || counted.iter().filter_map(|o| o.usage);
        let ttft = Sorted::of(usual().filter_map(Outcome::ttft));
        let itl = Sorted::of(usual().flat_map(|o| &o.gaps_us).map(|&us| Duration::from_micros(us.into())));
        let e2e = Sorted::of(done().map(Outcome::whole));
        let per_s = |count: f64| if wall_s > 0.0 { count / wall_s } else { 0.0 };
        Run {
            rate: reading.rate,
            requests: counted.len(),
            done: counts.done,
            left: counts.left,
            stayed: counted.iter().filter(|o| o.leaves && o.done()).count(),
            refused: counts.refused,
            failed: counts.failed,
            delayed: counted.iter().filter(|o| o.delayed).count(),
            errors: counts.errors,
            refusals: counts.refusals,
            finish_reasons: counts.finish_reasons,
            wall_s,
            prompt_tokens: usages().filter_map(|u| u.prompt_tokens).map(u64::from).sum(),
            cached_tokens: usages().filter_map(|u| u.prompt_tokens_details?.cached_tokens).map(u64::from).sum(),
            output_tokens,
            output_tokens_from: TokensFrom::of(&counted),
            output_tokens_per_s: per_s(output_tokens as f64),
            done_per_s: per_s(counts.done as f64),
            late_ms: Sorted::of(counted.iter().map(|o| o.sent.saturating_sub(o.intended))).spread(),
            tpot_ms: Sorted::of(done().filter_map(Outcome::per_output_token)).spread(),
            goodput: reading.slo.map(|slo| Goodput::of(&counted, slo, under_load.map_or(wall_s, |load| load.seconds), reading.arrivals_end)),
            slow: Slow::of(&counted),
            keys: reading.keys.iter().enumerate().filter_map(|(i, key)| KeyFigures::of(key, i, &counted)).collect(),
            quantiles: Quantiles { ttft_ms: ttft.quantiles(), itl_ms: itl.quantiles(), e2e_ms: e2e.quantiles() },
            rows: counted.iter().map(|o| Row::of(o, reading.keys)).collect(),
            under_load,
            ttft_ms: ttft.spread(),
            itl_ms: itl.spread(),
            e2e_ms: e2e.spread(),
        }
    }
}

/// From the first intended start to the last end.
fn wall(outcomes: &[&Outcome]) -> Duration {
    let first = outcomes.iter().map(|o| o.intended).min().unwrap_or_default();
    outcomes.iter().map(|o| o.ended).max().unwrap_or_default().saturating_sub(first)
}

/// How requests ended.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) done: usize,
    pub(super) left: usize,
    pub(super) refused: usize,
    pub(super) failed: usize,
    errors: BTreeMap<String, Errors>,
    refusals: BTreeMap<String, Errors>,
    finish_reasons: BTreeMap<String, usize>,
}

impl Counts {
    pub(super) fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Counts {
        let mut counts = Counts::default();
        outcomes.for_each(|outcome| counts.add(&outcome.end));
        counts
    }

    fn add(&mut self, end: &End) {
        let note = |errors: &mut BTreeMap<String, Errors>, kind: String, example: String| {
            let entry = errors.entry(kind).or_default();
            *entry = Errors { count: entry.count + 1, example: plain(&example) };
        };
        match end {
            End::Done { finish_reason } => {
                self.done += 1;
                *self.finish_reasons.entry(finish_reason.as_deref().map_or_else(|| "none".into(), plain)).or_default() += 1;
            }
            End::Left => self.left += 1,
            End::Refused { code, explanation, retry_after } => {
                self.refused += 1;
                let example = format!("{explanation} (Retry-After {} s)", retry_after.as_secs());
                note(&mut self.refusals, format!("status_{code}"), example);
            }
            End::Failed(failure) => {
                self.failed += 1;
                note(&mut self.errors, failure.kind(), failure.to_string());
            }
        }
    }
}

impl TokensFrom {
    fn of(outcomes: &[&Outcome]) -> TokensFrom {
        let counted = |o: &Outcome| o.usage.is_some_and(|usage| usage.completion_tokens.is_some());
        let answered = || outcomes.iter().filter(|o| o.pieces > 0 || counted(o));
        match (answered().filter(|o| counted(o)).count(), answered().count()) {
            (0, _) => TokensFrom::Pieces,
            (usages, all) if usages == all => TokensFrom::Usage,
            _ => TokensFrom::Both,
        }
    }
}

#[cfg(test)]
#[path = "figures_tests.rs"]
mod tests;
