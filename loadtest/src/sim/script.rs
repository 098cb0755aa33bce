//! What happens from outside, and when: made from a seed before anything runs, so that parts can be left out and the rest stays.

use super::ask::{Ask, Asks};
use super::bound::Most;
use super::contest;
use super::shape::Shape;
use super::troubles::{Troubles, hit};
use fastrand::Rng;
use kv::SeqId;
use scheduler::KeyId;
use std::fmt;

#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) shape: Shape,
    /// By time.
    pub(crate) acts: Vec<Act>,
    /// Virtual time that it covers.
    pub(crate) span_us: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub(crate) at_us: u64,
    pub(crate) what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Submit(Ask),
    /// The client of this row leaves, whether it waits, runs, is over or was never taken.
    Cancel(SeqId),
    /// All clients of rows from this one on leave.
    Storm(SeqId),
    Die,
    Drain,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>13.6} s  ", self.at_us as f64 / 1e6)?;
        match &self.what {
            What::Submit(ask) => ask.fmt(f),
            What::Cancel(seq) => write!(f, "cancel row {}", seq.0),
            What::Storm(seq) => write!(f, "cancel every row from {} on", seq.0),
            What::Die => write!(f, "the model is lost"),
            What::Drain => write!(f, "drain"),
        }
    }
}

/// Every so many seeds one is a contest.
const CONTESTS: u64 = 8;

const HOUR_US: u64 = 3_600_000_000;

/// Times an hour at which something happens, on average. Nothing happens between them, so they cost nothing.
const BURSTS_PER_HOUR: u64 = 10;

/// Keys that a seed with churn knows, and their number otherwise.
const KEYS: u32 = 6;

impl Script {
    /// What a row may cost that is taken, in tokens with drawn ones counted twice, and how many run at once.
    pub(crate) fn most(&self) -> Most {
        let limits = &self.shape.limits;
        let cost = |act: &Act| match &act.what {
            What::Submit(Ask { submit, .. }) => {
                let (prompt, answer) = (submit.prompt.len() as u64, u64::from(submit.max_tokens));
                (prompt + answer <= u64::from(limits.context)).then_some(prompt + 2 * answer)
            }
            What::Cancel(_) | What::Storm(_) | What::Die | What::Drain => None,
        };
        Most { row: self.acts.iter().filter_map(cost).max().unwrap_or(0), batch: u64::from(limits.batch) }
    }

    pub(crate) fn of(seed: u64, hours: u32) -> Script {
        if seed % CONTESTS == CONTESTS - 1 {
            return contest::of(seed, u64::from(hours) * HOUR_US);
        }
        let mut rng = Rng::with_seed(seed);
        let troubles = Troubles::draw(&mut rng);
        let shape = Shape::draw(&mut rng);
        let span_us = u64::from(hours) * HOUR_US;
        let mut writer = Writer::new(shape, troubles, &mut rng);
        let mut at_us = rng.u64(0..HOUR_US / BURSTS_PER_HOUR);
        while at_us < span_us {
            let end = writer.burst(&mut rng, at_us);
            // Mostly the rest is over before the next burst; not always.
            let gap = if rng.u32(0..4) == 0 { rng.u64(0..=20 * shape.pace.step_us) } else { rng.u64(0..=2 * HOUR_US / BURSTS_PER_HOUR * 4 / 3) };
            at_us = end + gap;
        }
        let mut acts = writer.acts;
        if rng.u32(0..6) == 0 {
            // What comes after it is refused.
            let from = acts.len() - acts.len() / 8;
            let at_us = acts.get(from).map_or(span_us, |act| act.at_us);
            acts.insert(from, Act { at_us, what: What::Drain });
        }
        Script { shape, acts, span_us }
    }
}

struct Writer {
    shape: Shape,
    troubles: Troubles,
    asks: Asks,
    /// Keys with their weights; without churn a seed has but the first, or the first two.
    keys: Vec<(KeyId, u32)>,
    usual: usize,
    rows: u64,
    acts: Vec<Act>,
}

impl Writer {
    fn new(shape: Shape, troubles: Troubles, rng: &mut Rng) -> Writer {
        let keys = (0..KEYS).map(|n| (KeyId(n), rng.u32(0..=6))).collect();
        Writer { shape, troubles, asks: Asks::new(shape, troubles, rng), keys, usual: rng.usize(1..=2), rows: 0, acts: Vec::new() }
    }

    /// Acts close together, on the scale of steps. Gives the time of the last one.
    fn burst(&mut self, rng: &mut Rng, start_us: u64) -> u64 {
        let troubles = self.troubles;
        // Whose rows come now: with churn other keys each time, and those that come back have been idle meanwhile.
        let keys: Vec<_> = if hit(rng, troubles.churn) { rng.choose_multiple(self.keys.iter().copied(), 3) } else { self.keys[..self.usual].to_vec() };
        let weights = [24, troubles.cancels, troubles.storms.div_ceil(4), troubles.deaths.div_ceil(4)];
        let mut at_us = start_us;
        for _ in 0..rng.u32(1..=12) {
            if rng.bool() {
                at_us += rng.u64(0..=6 * self.shape.pace.step_us);
            }
            let what = match weighted(rng, &weights) {
                0 => {
                    self.submit(rng, at_us, &keys);
                    continue;
                }
                1 => What::Cancel(SeqId(rng.u64(self.rows.saturating_sub(12)..=self.rows))),
                2 => What::Storm(SeqId(rng.u64(self.rows.saturating_sub(12)..=self.rows))),
                _ => What::Die,
            };
            self.acts.push(Act { at_us, what });
        }
        at_us
    }

    fn submit(&mut self, rng: &mut Rng, at_us: u64, keys: &[(KeyId, u32)]) {
        let key = keys[rng.usize(0..keys.len())];
        let seq = self.row();
        let ask = self.asks.make(rng, seq, key);
        if hit(rng, self.troubles.crowds / 3) {
            for _ in 0..rng.u32(1..=6) {
                let key = keys[rng.usize(0..keys.len())];
                let again = ask.again(self.row(), key);
                self.acts.push(Act { at_us, what: What::Submit(again) });
            }
        }
        self.acts.push(Act { at_us, what: What::Submit(ask) });
    }

    fn row(&mut self) -> SeqId {
        self.rows += 1;
        SeqId(self.rows)
    }
}

/// An index, each as often as its weight says.
fn weighted(rng: &mut Rng, weights: &[u32]) -> usize {
    let mut left = rng.u32(0..weights.iter().sum());
    weights
        .iter()
        .position(|&w| {
            if left < w {
                true
            } else {
                left -= w;
                false
            }
        })
        .unwrap_or(0)
}
