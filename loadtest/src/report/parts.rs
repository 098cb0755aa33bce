//! Figures of a part of a run: of the time under load, of good requests, of slow readers, of a key, of one request. Pure.

use super::figures::Counts;
use super::spread::{Sorted, Spread, ms, round};
use crate::load::keys::Key;
use crate::load::slo::{Slo, Took};
use crate::outcome::{End, Outcome};
use serde::Serialize;
use std::time::Duration;

/// What happened from the end of the warm-up until the last request was due, whoever asked for it: the tail in which the last
/// answers end says nothing of a rate that is kept up, and neither does the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct UnderLoad {
    pub seconds: f64,
    /// Requests due in that time.
    pub offered_per_s: f64,
    pub done_per_s: f64,
    pub refused_per_s: f64,
    pub output_tokens_per_s: f64,
}

/// Requests that ended well and broke no limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Goodput {
    pub good: usize,
    /// Of all but those that were told to leave or to read slowly.
    pub of: usize,
    /// Good ones a second: of an open loop those that were due under load, over that time; of a closed one all, over all of it.
    pub per_s: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Slow {
    pub requests: usize,
    pub done: usize,
    pub e2e_ms: Option<Spread>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeyFigures {
    pub name: String,
    pub weight: f64,
    pub requests: usize,
    pub done: usize,
    pub left: usize,
    pub refused: usize,
    pub failed: usize,
    pub output_tokens: u64,
    pub ttft_ms: Option<Spread>,
    pub e2e_ms: Option<Spread>,
}

/// One request; milliseconds since the start of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub end: &'static str,
    pub intended_ms: f64,
    pub sent_ms: f64,
    pub first_ms: Option<f64>,
    pub ended_ms: f64,
    pub pieces: u32,
    pub prompt_tokens: Option<u32>,
    pub output_tokens: u32,
    pub slow: bool,
    pub delayed: bool,
}

pub(super) fn tokens<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> u64 {
    outcomes.map(|o| u64::from(o.output_tokens())).sum()
}

impl UnderLoad {
    /// None where it has no length.
    pub(super) fn of(all: &[Outcome], counted: &[&Outcome], warmup: Duration, end: Duration) -> Option<UnderLoad> {
        let first = counted.iter().map(|o| o.intended).min()?;
        // A warm-up by number ends when the first request after it is due.
        let begin = if warmup.is_zero() { first } else { warmup };
        let seconds = end.checked_sub(begin)?.as_secs_f64();
        let within = |at: Duration| begin <= at && at < end;
        let ended = |which: fn(&Outcome) -> bool| all.iter().filter(|o| which(o) && within(o.ended)).count() as f64;
        let output: f64 = all
            .iter()
            .filter(|o| o.pieces > 0)
            .map(|o| {
                let pieces = o.piece_times().filter(|&at| within(at)).count();
                f64::from(o.output_tokens()) * pieces as f64 / f64::from(o.pieces)
            })
            .sum();
        // A run of one moment has no rate.
        (seconds > 0.0).then(|| UnderLoad {
            seconds,
            offered_per_s: counted.iter().filter(|o| o.intended <= end).count() as f64 / seconds,
            done_per_s: ended(Outcome::done) / seconds,
            refused_per_s: ended(|o| matches!(o.end, End::Refused { .. })) / seconds,
            output_tokens_per_s: output / seconds,
        })
    }
}

impl Goodput {
    pub(super) fn of(outcomes: &[&Outcome], slo: &Slo, seconds: f64, arrivals_end: Option<Duration>) -> Goodput {
        let judged = || outcomes.iter().filter(|o| !o.slow && o.end != End::Left);
        let took =
            |o: &Outcome| Took { ttft_ms: o.ttft().map(ms), itl_ms: o.mean_gap().map(ms), tpot_ms: o.per_output_token().map(ms), e2e_ms: Some(ms(o.whole())) };
        let good = || judged().filter(|o| o.done() && slo.holds(&took(o)));
        // Later turns may be due after the last arrival.
        let under_load = good().filter(|o| arrivals_end.is_none_or(|end| o.intended <= end)).count();
        Goodput { good: good().count(), of: judged().count(), per_s: if seconds > 0.0 { under_load as f64 / seconds } else { 0.0 } }
    }
}

impl Slow {
    pub(super) fn of(outcomes: &[&Outcome]) -> Option<Slow> {
        let slow = || outcomes.iter().filter(|o| o.slow);
        let done = || slow().filter(|o| o.done());
        let requests = slow().count();
        (requests > 0).then(|| Slow { requests, done: done().count(), e2e_ms: Sorted::of(done().map(|o| o.whole())).spread() })
    }
}

impl KeyFigures {
    /// None of a key without a name: its figures are the run's.
    pub(super) fn of(key: &Key, index: usize, outcomes: &[&Outcome]) -> Option<KeyFigures> {
        let own = || outcomes.iter().copied().filter(|o| o.key == index);
        let usual = || own().filter(|o| !o.slow);
        let counts = Counts::of(own());
        Some(KeyFigures {
            name: key.name.clone()?,
            weight: key.weight,
            requests: own().count(),
            done: counts.done,
            left: counts.left,
            refused: counts.refused,
            failed: counts.failed,
            output_tokens: tokens(own()),
            ttft_ms: Sorted::of(usual().filter_map(Outcome::ttft)).spread(),
            e2e_ms: Sorted::of(usual().filter(|o| o.done()).map(Outcome::whole)).spread(),
        })
    }
}

impl Row {
    pub(super) fn of(o: &Outcome, keys: &[Key]) -> Row {
        let at = |time: Duration| round(ms(time));
        Row {
            index: o.index,
            key: keys[o.key].name.clone(),
            end: match o.end {
                End::Done { .. } => "done",
                End::Left => "left",
                End::Refused { .. } => "refused",
                End::Failed(_) => "failed",
            },
            intended_ms: at(o.intended),
            sent_ms: at(o.sent),
            first_ms: o.first.map(at),
            ended_ms: at(o.ended),
            pieces: o.pieces,
            prompt_tokens: o.usage.and_then(|u| u.prompt_tokens),
            output_tokens: o.output_tokens(),
            slow: o.slow,
            delayed: o.delayed,
        }
    }
}
