//! Scripts in which keys want more than there is for a long time, each in its own way, so that what one gets beyond another adds up.

use super::ask::Ask;
use super::script::{Act, Script, What};
use super::shape::{Pace, Shape, pick};
use fastrand::Rng;
use kv::{Sampling, SeqId};
use scheduler::{KeyId, Submit, Wishes};

/// Virtual microseconds of a step: rows are of some ten steps.
const STEP_US: u64 = 1_000;

/// A key's way to ask.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// For all at once.
    Flood,
    /// A row at a time, about as fast as they end, and then for much: it has something running, and rarely something waiting.
    Saver,
    /// A few rows now and then.
    Guest,
}

pub(crate) fn of(seed: u64, span_us: u64) -> Script {
    let mut rng = Rng::with_seed(seed);
    let mut shape = Shape::draw(&mut rng);
    let limits = &mut shape.limits;
    (limits.batch, limits.queue, limits.prefix_cache) = (rng.u32(1..=4), 1_000, false);
    (limits.step_tokens, limits.prefill_chunk) = (limits.step_tokens.max(16), limits.prefill_chunk.max(8));
    shape.pool.prefix_cache = false;
    shape.pace = Pace { step_us: STEP_US, token_us: 0, settle_us: rng.u64(0..=10), lag_us: rng.u64(0..=10), reopen_us: STEP_US };
    let keys = rng.u32(2..=4);
    let mut acts = Vec::new();
    for key in 0..keys {
        // One floods in any case, or nothing would be contested.
        let way = if key == 0 { Way::Flood } else { [Way::Flood, Way::Saver, Way::Guest][rng.usize(0..3)] };
        let weight = pick(&mut rng, &[1, 1, 1, 2, 3, 6]);
        ask(&mut rng, way, (KeyId(key), weight), &shape, &mut acts);
    }
    acts.sort_by_key(|act: &Act| act.at_us);
    for (seq, act) in (1..).zip(&mut acts) {
        if let What::Submit(ask) = &mut act.what {
            ask.submit.seq = SeqId(seq);
        }
    }
    Script { shape, acts, span_us }
}

/// The acts of one key.
fn ask(rng: &mut Rng, way: Way, key: (KeyId, u32), shape: &Shape, acts: &mut Vec<Act>) {
    // Whatever the pool, a row fits.
    let most = (shape.limits.context / 2).min(shape.limits.pool_tokens as u32 / 2).clamp(1, 16);
    let (prompt, answer) = (rng.u32(1..=most), rng.u32(1..=most));
    let row_us = u64::from(answer + 2) * STEP_US;
    let mut at_us = 0;
    let mut add = |rng: &mut Rng, at_us: u64, rows: u64| acts.extend((0..rows).map(|_| submit(rng, at_us, key, (prompt, answer), shape.vocab)));
    match way {
        Way::Flood => {
            let rows = rng.u64(60..=120);
            add(rng, at_us, rows);
        }
        Way::Saver => {
            let every_us = row_us * rng.u64(5..=12) / 10;
            for _ in 0..rng.u64(10..=40) {
                at_us += every_us;
                add(rng, at_us, 1);
            }
            let rows = rng.u64(30..=60);
            add(rng, at_us, rows);
        }
        Way::Guest => {
            for _ in 0..rng.u32(5..=20) {
                at_us += rng.u64(0..=5 * row_us);
                let rows = rng.u64(1..=4);
                add(rng, at_us, rows);
            }
        }
    }
}

fn submit(rng: &mut Rng, at_us: u64, (key, weight): (KeyId, u32), (prompt, answer): (u32, u32), vocab: u32) -> Act {
    let submit = Submit {
        seq: SeqId(0),
        key,
        weight,
        priority: 0,
        prompt: (0..prompt).map(|_| rng.u32(0..vocab)).collect(),
        max_tokens: answer,
        min_tokens: 0,
        stop_ids: [].into(),
        ignore_eos: false,
        sampling: Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0 },
        wishes: Wishes::default(),
        mask: None,
    };
    Act { at_us, what: What::Submit(Ask { submit, guide_us: 0, fault_at: None, read_us: 0, leaves_after: None }) }
}
