//! What each key is served. Names come from the operator's keys file, never from a request, so there are no more of them than it has.

use crate::buckets;
use crate::maker::Maker;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use std::time::Duration;

/// The families; a key's children are made when it is first seen.
pub(crate) struct Keys {
    queue_wait: HistogramVec,
    tokens: IntCounterVec,
    rows: IntGaugeVec,
}

impl Keys {
    pub(crate) fn new(m: &Maker) -> Keys {
        Keys {
            queue_wait: m.histogram_family("coxswain:queue_wait_seconds", "From arrival to the first admission.", &["key"], buckets::REQUEST),
            tokens: m.counter_family("coxswain:key_tokens_total", "Tokens of prompts that were read, and of answers.", &["key", "kind"]),
            rows: m.gauge_family("coxswain:key_rows", "Rows in the batch, and waiting.", &["key", "state"]),
        }
    }
}

/// One key's children, resolved once. Cheap to clone; clones are the same series.
#[derive(Debug, Clone)]
pub struct KeySeries {
    queue_wait: Histogram,
    prompt: IntCounter,
    output: IntCounter,
    running: IntGauge,
    waiting: IntGauge,
}

impl KeySeries {
    pub(crate) fn new(keys: &Keys, name: &str) -> KeySeries {
        KeySeries {
            queue_wait: keys.queue_wait.with_label_values(&[name]),
            prompt: keys.tokens.with_label_values(&[name, "prompt"]),
            output: keys.tokens.with_label_values(&[name, "output"]),
            running: keys.rows.with_label_values(&[name, "running"]),
            waiting: keys.rows.with_label_values(&[name, "waiting"]),
        }
    }

    /// A row was admitted for the first time, so long after it came.
    pub fn admitted(&self, waited: Duration) {
        self.queue_wait.observe(waited.as_secs_f64());
    }

    /// A row's prompt is computed; cached tokens count.
    pub fn prefilled(&self, prompt_tokens: u32) {
        self.prompt.inc_by(u64::from(prompt_tokens));
    }

    pub fn token(&self) {
        self.output.inc();
    }

    /// Rows in the batch and waiting, now.
    pub fn set_rows(&self, running: u32, waiting: u32) {
        self.running.set(i64::from(running));
        self.waiting.set(i64::from(waiting));
    }
}
