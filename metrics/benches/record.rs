//! What it costs to record a token, which happens for every token of every row, and to read the page, which happens for every scrape.

#![allow(clippy::unwrap_used)]

use criterion::{Criterion, criterion_group, criterion_main};
use metrics::{Metrics, StepPhase, StepShape};
use std::hint::black_box;
use std::time::Duration;

fn record(c: &mut Criterion) {
    let metrics = Metrics::new("bench", 131_072);
    let key = metrics.key("team");
    c.bench_function("a token", |b| {
        let mut gap = Duration::ZERO;
        b.iter(|| {
            gap += Duration::from_micros(17);
            metrics.next_token(black_box(gap));
            key.token();
        });
    });
    c.bench_function("a step of one row, and its token", |b| {
        b.iter(|| {
            metrics.step(black_box(StepShape { rows: 1, prefill_tokens: 0, decode_tokens: 1 }));
            for phase in [StepPhase::Plan, StepPhase::Decode, StepPhase::Reply] {
                metrics.step_phase(phase, black_box(Duration::from_millis(9)));
            }
            metrics.next_token(black_box(Duration::from_millis(9)));
            key.token();
        });
    });
    (0..50).for_each(|n| drop(metrics.key(&format!("team {n}"))));
    c.bench_function("the page, with 50 keys", |b| b.iter(|| black_box(metrics.text())));
}

criterion_group!(benches, record);
criterion_main!(benches);
