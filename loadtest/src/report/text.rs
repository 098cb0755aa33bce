//! The report as a person reads it in a terminal.

use super::figures::{Run, TokensFrom};
use super::parts::{KeyFigures, UnderLoad};
use super::spread::Spread;
use super::{Pattern, Report};
use crate::load::arrivals::Arrivals;
use crate::load::slo::Slo;
use crate::plain::plain;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let s = &self.setting;
        let most = s.shape.random_output.map_or_else(|| s.max_tokens.to_string(), |span| format!("{}..{}", span.min, span.max));
        writeln!(f, "{} at {}: {}, max_tokens {most}", plain(&s.model), s.url, self.load())?;
        if self.is_sweep() { sweep(f, self) } else { self.runs.iter().try_for_each(|run| one(f, run, s.slo.as_ref())) }
    }
}

impl Report {
    /// How the load was put on, in a few words.
    pub(crate) fn load(&self) -> String {
        match &self.setting.pattern {
            Pattern::Closed { concurrency } => format!("{concurrency} clients"),
            Pattern::Trace { file, speed, .. } => format!("open loop, {file} at {speed} times its speed"),
            Pattern::Open { arrivals, .. } => {
                let arrivals = match arrivals {
                    Arrivals::Poisson => "poisson arrivals".to_owned(),
                    Arrivals::Constant => "constant arrivals".to_owned(),
                    Arrivals::Gamma { burstiness } => format!("gamma arrivals of burstiness {burstiness}"),
                };
                match self.runs.as_slice() {
                    [Run { rate: Some(rate), .. }] => format!("open loop, {arrivals}, {rate}"),
                    runs => format!("open loop, {arrivals}, {} rates", runs.len()),
                }
            }
        }
    }
}

/// One run: lines of counts, then the times.
fn one(f: &mut Formatter<'_>, run: &Run, slo: Option<&Slo>) -> fmt::Result {
    let (sent, done, left, refused, failed) = (run.requests, run.done, run.left, run.refused, run.failed);
    writeln!(f, "requests    {sent} in {:.1} s: {done} done, {left} left, {refused} refused, {failed} failed", run.wall_s)?;
    let from = match run.output_tokens_from {
        TokensFrom::Usage => "by usage",
        TokensFrom::Pieces => "pieces of text: the server gave no usage that can be",
        TokensFrom::Both => "by usage where given, else pieces of text",
    };
    let (tokens, rate) = (run.output_tokens, run.output_tokens_per_s);
    writeln!(f, "output      {tokens} tokens ({from}), {rate:.1} tok/s, {:.2} answers/s", run.done_per_s)?;
    if run.rows.iter().any(|row| row.prompt_tokens.is_some()) {
        writeln!(f, "prompts     {} tokens, {} of them cached", run.prompt_tokens, run.cached_tokens)?;
    } else {
        writeln!(f, "prompts     of unknown length: the server gave no usage that can be")?;
    }
    if let Some(load) = &run.under_load {
        let (offered, done, refused) = (load.offered_per_s, load.done_per_s, load.refused_per_s);
        let (seconds, tokens) = (load.seconds, load.output_tokens_per_s);
        writeln!(f, "under load  {seconds:.1} s: {offered:.2}/s due, {done:.2}/s answered, {refused:.2}/s refused, {tokens:.1} tok/s")?;
    }
    if run.stayed > 0 {
        writeln!(f, "stayed      {} clients of --disconnect: their answers ended before the moment at which they were to leave", run.stayed)?;
    }
    if run.delayed > 0 {
        writeln!(f, "delayed     {} requests waited until fewer were in flight (--max-in-flight); their latency counts that", run.delayed)?;
    }
    for (reason, count) in &run.finish_reasons {
        writeln!(f, "finish      {reason}: {count}")?;
    }
    if let (Some(goodput), Some(slo)) = (&run.goodput, slo) {
        writeln!(f, "goodput     {} of {} within {slo}: {:.2}/s", goodput.good, goodput.of, goodput.per_s)?;
    }
    if let Some(slow) = &run.slow {
        let mean = slow.e2e_ms.map_or("-".to_owned(), |e2e| format!("{:.1}", e2e.mean));
        writeln!(f, "slow        {} readers, {} done, E2E mean {mean} ms; not in the times below", slow.requests, slow.done)?;
    }
    spreads(f, run)?;
    keys(f, &run.keys)?;
    ends(f, &[run])
}

fn spreads(f: &mut Formatter<'_>, run: &Run) -> fmt::Result {
    let mut rows = vec![cells(&["ms        ", "mean", "p50", "p90", "p95", "p99", "max"])];
    for (name, spread) in [("TTFT", run.ttft_ms), ("ITL", run.itl_ms), ("TPOT", run.tpot_ms), ("E2E", run.e2e_ms), ("late", run.late_ms)] {
        let figures = spread.map(|Spread { mean, p50, p90, p95, p99, max, .. }| [mean, p50, p90, p95, p99, max]);
        let shown = figures.map_or([const { String::new() }; 6].map(|_| "-".into()), |figures| figures.map(|ms| format!("{ms:.1}")));
        rows.push([name.to_owned()].into_iter().chain(shown).collect());
    }
    table(f, &rows)
}

/// Columns as wide as their widest cell: the first to the left, the others to the right.
fn table(f: &mut Formatter<'_>, rows: &[Vec<String>]) -> fmt::Result {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0)).collect();
    for row in rows {
        for (i, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            if i == 0 { write!(f, "{cell:<width$}")? } else { write!(f, "  {cell:>width$}")? }
        }
        writeln!(f)?;
    }
    Ok(())
}

fn cells(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn keys(f: &mut Formatter<'_>, keys: &[KeyFigures]) -> fmt::Result {
    if keys.is_empty() {
        return Ok(());
    }
    let mut rows = vec![cells(&["key       ", "weight", "requests", "done", "left", "refused", "failed", "tokens", "TTFT p50", "E2E p50"])];
    for key in keys {
        let p50 = |spread: Option<Spread>| spread.map_or("-".to_owned(), |s| format!("{:.1}", s.p50));
        let counts = [key.requests, key.done, key.left, key.refused, key.failed].map(|n| n.to_string());
        let mut row = vec![key.name.clone(), key.weight.to_string()];
        row.extend(counts);
        row.extend([key.output_tokens.to_string(), p50(key.ttft_ms), p50(key.e2e_ms)]);
        rows.push(row);
    }
    table(f, &rows)
}

/// How requests failed or were refused, each way once.
fn ends(f: &mut Formatter<'_>, runs: &[&Run]) -> fmt::Result {
    for (word, which) in [("refused", (|run| &run.refusals) as fn(&Run) -> &BTreeMap<_, _>), ("failed", |run| &run.errors)] {
        let mut all = BTreeMap::<&str, (usize, &str)>::new();
        for (kind, errors) in runs.iter().flat_map(|run| which(run)) {
            let entry = all.entry(kind).or_default();
            *entry = (entry.0 + errors.count, &errors.example);
        }
        for (kind, (count, example)) in all {
            writeln!(f, "{word:<11} {kind}: {count}, such as: {example}")?;
        }
    }
    Ok(())
}

/// One line a rate. Rates are under load, times in milliseconds as p50 and p95.
fn sweep(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let mut head = cells(&["rate/s", "due/s", "done/s", "refused/s", "tok/s", "TTFT", "p95", "ITL", "p95", "E2E", "p95", "late p99", "delayed", "failed"]);
    head.extend(report.setting.slo.map(|_| "good/s".to_owned()));
    let mut rows = vec![head];
    rows.extend(report.runs.iter().map(rate));
    table(f, &rows)?;
    if let Some(slo) = &report.setting.slo {
        writeln!(f, "good is within {slo}")?;
    }
    ends(f, &report.runs.iter().collect::<Vec<_>>())
}

/// The sweep's line of one run.
fn rate(run: &Run) -> Vec<String> {
    let load = |value: fn(&UnderLoad) -> f64| run.under_load.as_ref().map_or("-".to_owned(), |load| format!("{:.2}", value(load)));
    let ms = |spread: Option<Spread>, value: fn(Spread) -> f64| spread.map_or("-".to_owned(), |spread| format!("{:.0}", value(spread)));
    let mut row = vec![run.rate.map_or("-".to_owned(), |rate| rate.to_string().replace("/s", ""))];
    row.extend([load(|l| l.offered_per_s), load(|l| l.done_per_s), load(|l| l.refused_per_s), load(|l| l.output_tokens_per_s)]);
    for spread in [run.ttft_ms, run.itl_ms, run.e2e_ms] {
        row.extend([ms(spread, |s| s.p50), ms(spread, |s| s.p95)]);
    }
    row.push(run.late_ms.map_or("-".to_owned(), |late| format!("{:.1}", late.p99)));
    row.extend([run.delayed.to_string(), run.failed.to_string()]);
    row.extend(run.goodput.map(|goodput| format!("{:.2}", goodput.per_s)));
    row
}
