//! Which lines a report has: how times are distributed, and how a service behaves as its load grows.

use super::chart::{Axis, Chart, HEIGHT, Series, WIDTH};
use super::svg::STYLE;
use crate::load::arrivals::Rate;
use crate::report::parts::UnderLoad;
use crate::report::spread::Spread;
use crate::report::{Report, Run};

/// How many percent of all requests had their first text, of all gaps were over, of all answers ended, within a time.
pub(super) fn distribution(title: &str, run: &Run) -> String {
    let curve = |quantiles: &[f64]| {
        let percent = 100.0 / (quantiles.len().max(2) - 1) as f64;
        quantiles.iter().enumerate().map(|(i, &ms)| (ms, i as f64 * percent)).collect()
    };
    let times = [("TTFT", 1, &run.quantiles.ttft_ms), ("ITL", 0, &run.quantiles.itl_ms), ("E2E", 2, &run.quantiles.e2e_ms)];
    let series = times.map(|(name, colour, quantiles)| Series { name, colour, dashed: false, dots: false, points: curve(quantiles) });
    Chart { title, x: Axis { label: "ms", log: true }, y: Axis { label: "% within", log: false }, series: series.into() }.svg(0.0)
}

/// Requests due against those answered, refused, and good.
pub(super) fn throughput(report: &Report, x: f64) -> String {
    let of = |value: fn(&UnderLoad) -> f64| points(report, |run| run.under_load.as_ref().map(value));
    let mut series = vec![
        Series { name: "due", colour: 5, dashed: true, dots: false, points: of(|load| load.offered_per_s) },
        Series { name: "answered", colour: 0, dashed: false, dots: true, points: of(|load| load.done_per_s) },
        Series { name: "refused", colour: 4, dashed: false, dots: true, points: of(|load| load.refused_per_s) },
    ];
    if report.setting.slo.is_some() {
        let good = points(report, |run| run.goodput.map(|goodput| goodput.per_s));
        series.push(Series { name: "within limits", colour: 2, dashed: false, dots: true, points: good });
    }
    let axis = |label| Axis { label, log: false };
    Chart { title: "Throughput against load", x: axis("rate, 1/s"), y: axis("requests a second"), series }.svg(x)
}

pub(super) fn tokens(report: &Report) -> String {
    let points = points(report, |run| run.under_load.map(|load| load.output_tokens_per_s));
    let series = vec![Series { name: "output", colour: 0, dashed: false, dots: true, points }];
    let axis = |label| Axis { label, log: false };
    Chart { title: "Tokens against load", x: axis("rate, 1/s"), y: axis("tokens a second"), series }.svg(0.0)
}

/// Times from when requests were due.
pub(super) fn latency(report: &Report, x: f64) -> String {
    let of = |which: fn(&Run) -> Option<Spread>, value: fn(&Spread) -> f64| points(report, move |run| which(run).as_ref().map(value));
    let series = |name, colour, dashed, points| Series { name, colour, dashed, dots: !dashed, points };
    let series = vec![
        series("TTFT p50", 1, false, of(|run| run.ttft_ms, |s| s.p50)),
        series("p95", 1, true, of(|run| run.ttft_ms, |s| s.p95)),
        series("ITL p50", 0, false, of(|run| run.itl_ms, |s| s.p50)),
        series("p95", 0, true, of(|run| run.itl_ms, |s| s.p95)),
        series("E2E p50", 2, false, of(|run| run.e2e_ms, |s| s.p50)),
        series("p95", 2, true, of(|run| run.e2e_ms, |s| s.p95)),
    ];
    Chart { title: "Latency against load", x: Axis { label: "rate, 1/s", log: false }, y: Axis { label: "ms", log: true }, series }.svg(x)
}

/// A sweep's throughput and latency side by side, as a picture of its own.
pub fn picture(report: &Report) -> String {
    let width = 2.0 * WIDTH;
    let head = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{HEIGHT}\" viewBox=\"0 0 {width} {HEIGHT}\">");
    format!("{head}<style>{STYLE}</style>{}{}</svg>\n", throughput(report, 0.0), latency(report, WIDTH))
}

/// A value a run, over its rate; runs that have none are left out.
fn points(report: &Report, value: impl Fn(&Run) -> Option<f64>) -> Vec<(f64, f64)> {
    let rate = |run: &Run| match run.rate? {
        Rate::Steady { per_s } => Some(per_s),
        Rate::Ramp { .. } => None,
    };
    let mut points: Vec<(f64, f64)> = report.runs.iter().filter_map(|run| Some((rate(run)?, value(run)?))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}
