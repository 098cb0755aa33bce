//! What a run came to: counts, percentiles, a table for people and JSON for machines.

use crate::client::{End, Outcome};
use crate::runner::Ran;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How the load was put on, repeated so that a report can be read alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    pub url: String,
    pub model: String,
    pub concurrency: usize,
    pub warmup: usize,
    pub max_tokens: u32,
    pub temperature: f32,
    pub seed: u64,
    pub ignore_eos: bool,
    pub disconnect: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub setting: Setting,
    /// Sent, warm-up not counted: `done + left + failed`.
    pub requests: usize,
    /// Streams that came to their end.
    pub done: usize,
    /// Streams that this client left, as told.
    pub left: usize,
    pub failed: usize,
    /// Failures by kind, and of each kind one message.
    pub errors: BTreeMap<String, Errors>,
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
    /// To the first text, milliseconds, of every stream that had one.
    pub ttft_ms: Option<Spread>,
    /// Between pieces of text, milliseconds.
    pub itl_ms: Option<Spread>,
    /// To the end, milliseconds, of streams that came to it.
    pub e2e_ms: Option<Spread>,
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

/// Percentiles by nearest rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl Spread {
    /// None of no values.
    pub fn of(values: impl IntoIterator<Item = Duration>) -> Option<Spread> {
        let mut ms: Vec<f64> = values.into_iter().map(|d| d.as_secs_f64() * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        let (count, max) = (ms.len(), *ms.last()?);
        // Nearest rank: the smallest value that at least this percentage of the values do not exceed.
        let rank = |percent: usize| ms[(percent * count).div_ceil(100) - 1];
        let mean = ms.iter().sum::<f64>() / count as f64;
        Some(Spread { mean, p50: rank(50), p95: rank(95), p99: rank(99), max })
    }
}

impl Report {
    pub fn new(setting: Setting, ran: &Ran) -> Report {
        let outcomes = &ran.outcomes;
        let wall_s = ran.wall.as_secs_f64();
        let mut errors: BTreeMap<String, Errors> = BTreeMap::new();
        let mut finish_reasons = BTreeMap::new();
        let (mut done, mut left, mut failed) = (0, 0, 0);
        for outcome in outcomes {
            match &outcome.end {
                End::Done { finish_reason } => {
                    done += 1;
                    *finish_reasons.entry(finish_reason.clone().unwrap_or_else(|| "none".into())).or_default() += 1;
                }
                End::Left => left += 1,
                End::Failed(failure) => {
                    failed += 1;
                    let entry = errors.entry(failure.kind()).or_default();
                    entry.count += 1;
                    entry.example = failure.to_string();
                }
            }
        }
        let output_tokens: u64 = outcomes.iter().map(output_tokens).sum();
        let usages = || outcomes.iter().filter_map(|o| o.usage);
        let cached = usages().filter_map(|u| u.prompt_tokens_details?.cached_tokens).map(u64::from).sum();
        let whole = outcomes.iter().filter(|o| matches!(o.end, End::Done { .. }));
        Report {
            setting,
            requests: outcomes.len(),
            done,
            left,
            failed,
            errors,
            finish_reasons,
            wall_s,
            prompt_tokens: usages().map(|u| u64::from(u.prompt_tokens)).sum(),
            cached_tokens: cached,
            output_tokens,
            output_tokens_from: match usages().count() {
                0 => TokensFrom::Pieces,
                n if n == outcomes.len() => TokensFrom::Usage,
                _ => TokensFrom::Both,
            },
            output_tokens_per_s: output_tokens as f64 / wall_s,
            done_per_s: done as f64 / wall_s,
            ttft_ms: Spread::of(outcomes.iter().filter_map(|o| o.first_text)),
            itl_ms: Spread::of(outcomes.iter().flat_map(|o| o.gaps.iter().copied())),
            e2e_ms: Spread::of(whole.map(|o| o.whole)),
        }
    }

    /// Pretty JSON, as `--json` writes it.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers here are finite and keys are strings")
    }
}

impl Report {
    fn write_spreads(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<10} {:>10} {:>10} {:>10} {:>10} {:>10}", "ms", "mean", "p50", "p95", "p99", "max")?;
        for (name, spread) in [("TTFT", self.ttft_ms), ("ITL", self.itl_ms), ("E2E", self.e2e_ms)] {
            match spread {
                Some(Spread { mean, p50, p95, p99, max }) => {
                    writeln!(f, "{name:<10} {mean:>10.1} {p50:>10.1} {p95:>10.1} {p99:>10.1} {max:>10.1}")?;
                }
                None => writeln!(f, "{name:<10} {:>10} {:>10} {:>10} {:>10} {:>10}", "-", "-", "-", "-", "-")?,
            }
        }
        Ok(())
    }
}

/// Tokens of one answer.
fn output_tokens(outcome: &Outcome) -> u64 {
    u64::from(outcome.usage.map_or(outcome.pieces, |usage| usage.completion_tokens))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.setting;
        writeln!(f, "{} at {}: {} clients, max_tokens {}", s.model, s.url, s.concurrency, s.max_tokens)?;
        let (sent, done, left, failed) = (self.requests, self.done, self.left, self.failed);
        writeln!(f, "requests    {sent} in {:.1} s: {done} done, {left} left, {failed} failed", self.wall_s)?;
        let from = match self.output_tokens_from {
            TokensFrom::Usage => "by usage",
            TokensFrom::Pieces => "pieces of text: the server gave no usage",
            TokensFrom::Both => "by usage where given, else pieces of text",
        };
        let (tokens, rate) = (self.output_tokens, self.output_tokens_per_s);
        writeln!(f, "output      {tokens} tokens ({from}), {rate:.1} tok/s, {:.2} answers/s", self.done_per_s)?;
        writeln!(f, "prompts     {} tokens, {} of them cached", self.prompt_tokens, self.cached_tokens)?;
        for (reason, count) in &self.finish_reasons {
            writeln!(f, "finish      {reason}: {count}")?;
        }
        self.write_spreads(f)?;
        for (kind, errors) in &self.errors {
            writeln!(f, "failed      {kind}: {}, such as: {}", errors.count, errors.example)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let spread = |n: u64| Spread::of((1..=n).map(Duration::from_secs)).unwrap();
        for (n, p50, p95, p99) in [(1, 1, 1, 1), (2, 1, 2, 2), (10, 5, 10, 10), (100, 50, 95, 99), (200, 100, 190, 198)] {
            let s = spread(n);
            let expect = [p50, p95, p99, n].map(|v| v as f64 * 1e3);
            assert_eq!([s.p50, s.p95, s.p99, s.max], expect, "n {n}");
            assert_eq!(s.mean, (n + 1) as f64 * 500.0, "n {n}");
        }
        assert_eq!(Spread::of([]), None);
    }
}
