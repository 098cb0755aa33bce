//! What one run came to: counts, rates and times, computed from its outcomes. Pure.

use super::spread::{Sorted, Spread, ms, round};
use crate::load::arrivals::Rate;
use crate::load::keys::Key;
use crate::load::slo::{Slo, Took};
use crate::outcome::{End, Outcome};
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
    /// Good ones a second: of the time under load of an open loop, and of all of a closed one.
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

/// Milliseconds at 0, 0.5, 1, … 100 percent.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Quantiles {
    pub ttft_ms: Vec<f64>,
    pub itl_ms: Vec<f64>,
    pub e2e_ms: Vec<f64>,
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
            refused: counts.refused,
            failed: counts.failed,
            delayed: counted.iter().filter(|o| o.delayed).count(),
            errors: counts.errors,
            refusals: counts.refusals,
            finish_reasons: counts.finish_reasons,
            wall_s,
            prompt_tokens: usages().map(|u| u64::from(u.prompt_tokens)).sum(),
            cached_tokens: usages().filter_map(|u| u.prompt_tokens_details?.cached_tokens).map(u64::from).sum(),
            output_tokens,
            output_tokens_from: TokensFrom::of(&counted),
            output_tokens_per_s: per_s(output_tokens as f64),
            done_per_s: per_s(counts.done as f64),
            late_ms: Sorted::of(counted.iter().map(|o| o.sent.saturating_sub(o.intended))).spread(),
            tpot_ms: Sorted::of(done().filter_map(Outcome::per_output_token)).spread(),
            goodput: reading.slo.map(|slo| Goodput::of(&counted, slo, under_load.map_or(wall_s, |load| load.seconds))),
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

fn tokens<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> u64 {
    outcomes.map(|o| u64::from(o.output_tokens())).sum()
}

/// How requests ended.
#[derive(Default)]
struct Counts {
    done: usize,
    left: usize,
    refused: usize,
    failed: usize,
    errors: BTreeMap<String, Errors>,
    refusals: BTreeMap<String, Errors>,
    finish_reasons: BTreeMap<String, usize>,
}

impl Counts {
    fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Counts {
        let mut counts = Counts::default();
        outcomes.for_each(|outcome| counts.add(&outcome.end));
        counts
    }

    fn add(&mut self, end: &End) {
        let note = |errors: &mut BTreeMap<String, Errors>, kind: String, example: String| {
            let entry = errors.entry(kind).or_default();
            *entry = Errors { count: entry.count + 1, example };
        };
        match end {
            End::Done { finish_reason } => {
                self.done += 1;
                *self.finish_reasons.entry(finish_reason.clone().unwrap_or_else(|| "none".into())).or_default() += 1;
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
        let answered = || outcomes.iter().filter(|o| o.pieces > 0 || o.usage.is_some());
        match (answered().filter(|o| o.usage.is_some()).count(), answered().count()) {
            (0, _) => TokensFrom::Pieces,
            (usages, all) if usages == all => TokensFrom::Usage,
            _ => TokensFrom::Both,
        }
    }
}

impl UnderLoad {
    /// None where it has no length.
    fn of(all: &[Outcome], counted: &[&Outcome], warmup: Duration, end: Duration) -> Option<UnderLoad> {
        // A warm-up by number ends when the first request after it is due.
        let begin = counted.iter().map(|o| o.intended).min()?.max(warmup);
        let begin = if warmup.is_zero() { begin } else { warmup };
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
    fn of(outcomes: &[&Outcome], slo: &Slo, seconds: f64) -> Goodput {
        let judged = || outcomes.iter().filter(|o| !o.slow && o.end != End::Left);
        let took =
            |o: &Outcome| Took { ttft_ms: o.ttft().map(ms), itl_ms: o.mean_gap().map(ms), tpot_ms: o.per_output_token().map(ms), e2e_ms: Some(ms(o.whole())) };
        let good = judged().filter(|o| o.done() && slo.holds(&took(o))).count();
        Goodput { good, of: judged().count(), per_s: if seconds > 0.0 { good as f64 / seconds } else { 0.0 } }
    }
}

impl Slow {
    fn of(outcomes: &[&Outcome]) -> Option<Slow> {
        let slow = || outcomes.iter().filter(|o| o.slow);
        let done = || slow().filter(|o| o.done());
        let requests = slow().count();
        (requests > 0).then(|| Slow { requests, done: done().count(), e2e_ms: Sorted::of(done().map(|o| o.whole())).spread() })
    }
}

impl KeyFigures {
    /// None of a key without a name: its figures are the run's.
    fn of(key: &Key, index: usize, outcomes: &[&Outcome]) -> Option<KeyFigures> {
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
    fn of(o: &Outcome, keys: &[Key]) -> Row {
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
            prompt_tokens: o.usage.map(|u| u.prompt_tokens),
            output_tokens: o.output_tokens(),
            slow: o.slow,
            delayed: o.delayed,
        }
    }
}

#[cfg(test)]
#[path = "figures_tests.rs"]
mod tests;
