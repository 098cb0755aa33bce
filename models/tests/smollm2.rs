//! The default model against mlx-lm's recordings (parity tier L1), and batched rows against solo rows.
//!
//! Needs the default model, which `make model` fetches.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Row, Runner, golden};

/// A greedy id is compared while the oracle's two best logits are at least this far apart.
const GAP: f32 = 0.01;

/// Largest error of a first-step logit, absolute: the recording keeps four decimals.
const FIRST_LOGITS: f32 = 1e-3;

#[test]
fn greedy_answers_are_the_oracles_solo() {
    let mut runner = Runner::default_model();
    for g in golden() {
        let out = runner.greedy(std::slice::from_ref(&g.prompt_ids), g.out.len());
        g.assert_answer(&out[0], GAP, "solo");
    }
}

#[test]
fn greedy_answers_are_the_oracles_in_one_batch() {
    let mut runner = Runner::default_model();
    let all = golden();
    let prompts: Vec<Vec<u32>> = all.iter().map(|g| g.prompt_ids.clone()).collect();
    let longest = all.iter().map(|g| g.out.len()).max().unwrap();
    for (g, out) in all.iter().zip(runner.greedy(&prompts, longest)) {
        g.assert_answer(&out[..g.out.len()], GAP, "in one batch");
    }
}

#[test]
fn first_logits_are_the_oracles() {
    let mut runner = Runner::default_model();
    for g in golden() {
        let logits = runner.feed(&mut [Row::new(1, 0)], std::slice::from_ref(&g.prompt_ids)).remove(0);
        for (id, want) in g.first.ids.iter().zip(&g.first.logits) {
            let got = logits[*id as usize];
            assert!((got - want).abs() <= FIRST_LOGITS, "{:?}: logit of {id} is {got}, recorded {want}", g.text);
        }
    }
}

/// Teacher-forced: the same tokens are fed to a row alone and among others, and the logits compared, so that one early flip
/// can neither hide nor fake a fault. Rows join and leave in the middle of the run.
#[test]
fn batched_rows_match_solo_rows() {
    let mut runner = Runner::default_model();
    let lengths = [1usize, 31, 32, 33, 500];
    let text = |n: usize, salt: u32| -> Vec<u32> { (0..n as u32).map(|i| 1000 + (i * 7919 + salt * 104_729) % 40_000).collect() };
    let prompts: Vec<Vec<u32>> = lengths.iter().enumerate().map(|(i, n)| text(*n, i as u32)).collect();
    let forced: Vec<Vec<u32>> = lengths.iter().enumerate().map(|(i, _)| text(12, 50 + i as u32)).collect();

    let solo: Vec<Vec<Vec<f32>>> = prompts.iter().zip(&forced).map(|(p, f)| runner.forced_alone(p, f)).collect();

    // Row i joins at step 2i and leaves after 12 forced tokens, so that every width from 1 up and down again occurs.
    let mut rows: Vec<Row> = (0..lengths.len()).map(|i| Row::new(1 + i as u64, (i * 20) as u32)).collect();
    for turn in 0..30usize {
        let running: Vec<usize> = (0..rows.len()).filter(|i| turn >= 2 * i && turn - 2 * i <= 12).collect();
        if running.is_empty() {
            continue;
        }
        let inputs: Vec<Vec<u32>> = running.iter().map(|i| if turn == 2 * i { prompts[*i].clone() } else { vec![forced[*i][turn - 2 * i - 1]] }).collect();
        let mut some: Vec<Row> = running.iter().map(|i| rows[*i].clone()).collect();
        let logits = runner.feed(&mut some, &inputs);
        for ((i, row), z) in running.iter().zip(some).zip(logits) {
            let want = &solo[*i][turn - 2 * i];
            let spread = want.iter().fold(f32::MIN, |m, x| m.max(*x)) - want.iter().fold(f32::MAX, |m, x| m.min(*x));
            let error = z.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max) / spread;
            // f32's bound of tier L1; what differs is only the order of sums in a wider matrix product.
            assert!(error <= 1e-4, "a row of {} tokens, {} after its prompt: error {error:e} of the spread", lengths[*i], turn - 2 * i);
            rows[*i] = row;
        }
    }
}

/// Passes that keep their shape: every bit of a row's logits is the same alone and among others, whatever its prompt's chunks, and
/// when its own answer is read again as part of its prompt, as after a preemption.
#[test]
fn passes_of_one_shape_give_a_row_the_same_bits() {
    let mut runner = Runner::default_model();
    runner.keep_shape();
    let text = |n: usize, salt: u32| -> Vec<u32> { (0..n as u32).map(|i| 1000 + (i * 7919 + salt * 104_729) % 40_000).collect() };
    let prompts: Vec<Vec<u32>> = [1usize, 31, 40, 150].iter().enumerate().map(|(i, n)| text(*n, i as u32)).collect();
    let forced: Vec<Vec<u32>> = (0..prompts.len()).map(|i| text(3, 50 + i as u32)).collect();
    let solo: Vec<Vec<Vec<f32>>> = prompts.iter().zip(&forced).map(|(p, f)| runner.forced_alone(p, f)).collect();

    let mut rows: Vec<Row> = (0..prompts.len()).map(|i| Row::new(1 + i as u64, (i * 20) as u32)).collect();
    // The last prompt is read in three chunks while the others are decoded.
    let chunks = [&prompts[3][..7], &prompts[3][7..100], &prompts[3][100..]];
    let logits = runner.feed(&mut rows, &[prompts[0].clone(), prompts[1].clone(), prompts[2].clone(), chunks[0].to_vec()]);
    assert!((0..3).all(|i| logits[i] == solo[i][0]), "first logits of a row among others");
    for turn in 0..2 {
        let inputs = [vec![forced[0][turn]], vec![forced[1][turn]], vec![forced[2][turn]], chunks[turn + 1].to_vec()];
        let logits = runner.feed(&mut rows, &inputs);
        assert!((0..3).all(|i| logits[i] == solo[i][turn + 1]), "logits of a decoding row beside a chunk");
        assert!(turn == 0 || logits[3] == solo[3][0], "first logits of a prompt in chunks");
    }
    for (i, (prompt, forced)) in prompts.iter().zip(&forced).enumerate() {
        let again: Vec<u32> = prompt.iter().chain(forced).copied().collect();
        let logits = runner.feed(&mut [Row::new(77, 90)], &[again]);
        assert!(logits[0] == solo[i][3], "a row of {} tokens, its answer read again", prompt.len());
    }
}
