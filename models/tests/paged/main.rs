//! The kernels' bodies, compiled as plain C++ with lanes and barriers that are real, against attention written down naively.

#![allow(clippy::unwrap_used)]

mod driver;
mod fused;
mod matmul;
mod naive;

use driver::{CASES, Case};
use mlx_rs::Dtype;
use models::kernels::{Plan, Tuning};
use naive::{Rows, Wanted};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

/// Runs the kernels and compares every output with the naive one.
fn holds(case: &Case, wanted: &Wanted) -> Result<(), TestCaseError> {
    let rows = Rows::scattered(case, wanted);
    let each = (case.spec.kv_heads * case.tuning.parts) as u32;
    let plan = wanted.splits.map_or_else(|| Plan::of(&wanted.lengths, wanted.window, each), |s| Plan::with(&wanted.lengths, wanted.window, s));
    let got = driver::run(case, &rows, wanted, plan).map_err(TestCaseError::fail)?;
    let want = rows.attention(case, wanted);
    prop_assert_eq!(got.len(), want.len());
    // One rounding to the type, and sums in f32 over head_dim and keys of values up to 3.
    let ulp = match case.spec.dtype {
        Dtype::Bfloat16 => 2f64.powi(-8),
        Dtype::Float16 => 2f64.powi(-11),
        _ => 0.0,
    };
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        let error = (f64::from(*got) - want).abs();
        prop_assert!(error <= ulp * want.abs() + 2e-5, "{case:?} {plan:?}: output {i} is {got}, not {want}");
    }
    Ok(())
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let length = prop_oneof![1u32..=40, 1u32..=400, Just(32u32), Just(64u32), Just(33u32)];
    let window = prop_oneof![2 => Just(None), 1 => (1u32..=300).prop_map(Some)];
    let splits = prop_oneof![Just(None), prop::sample::select(vec![Some(1), Some(2), Some(4), Some(8)])];
    (prop::collection::vec(length, 1..=3), window, splits, any::<u32>()).prop_map(|(lengths, window, splits, seed)| Wanted { lengths, window, splits, seed })
}

#[test]
fn every_shape_agrees_with_naive_attention_on_rows_of_every_kind() {
    for case in CASES.iter() {
        for splits in [Some(1), Some(4)] {
            for window in [None, Some(45)] {
                let wanted = Wanted { lengths: vec![1, 40, 333, 64], window, splits, seed: 7 };
                holds(case, &wanted).unwrap();
            }
        }
    }
}

#[test]
fn without_copies_that_run_behind_the_bits_are_the_same() {
    for case in CASES.iter() {
        let wanted = Wanted { lengths: vec![77, 40], window: None, splits: Some(2), seed: 9 };
        let rows = Rows::scattered(case, &wanted);
        let plan = Plan::with(&wanted.lengths, None, 2);
        let [behind, at_once] = [driver::run(case, &rows, &wanted, plan), driver::run_at_once(case, &rows, &wanted, plan)].map(Result::unwrap);
        assert!(behind.iter().zip(&at_once).all(|(a, b)| a.to_bits() == b.to_bits()), "{case:?}");
    }
}

#[test]
fn random_rows_agree_with_naive_attention() {
    let config = ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() };
    let cases = (0..CASES.len(), wanted());
    TestRunner::new(config).run(&cases, |(case, wanted)| holds(&CASES[case], &wanted)).unwrap();
}

#[test]
fn the_shapes_that_are_served_are_among_those_tried() {
    let served = |case: &&Case| Tuning::of(&case.spec) == Ok(case.tuning);
    let count = CASES.iter().filter(served).count();
    assert!(count >= 9, "{count} cases have the constants that Tuning::of gives");
    for (head_dim, dtype) in
        [(64, Dtype::Bfloat16), (80, Dtype::Float16), (96, Dtype::Float16), (128, Dtype::Bfloat16), (256, Dtype::Bfloat16), (16, Dtype::Float32)]
    {
        assert!(CASES.iter().filter(served).any(|c| c.spec.head_dim == head_dim && c.spec.dtype == dtype), "{head_dim} {dtype:?}");
    }
}

#[test]
fn a_missing_barrier_is_noticed() {
    // The same bodies with barriers that do nothing: if this passed, the test above could not fail for want of one.
    let case = &CASES[0];
    let wanted = Wanted { lengths: vec![333; 3], window: None, splits: Some(1), seed: 3 };
    let rows = Rows::scattered(case, &wanted);
    let plan = Plan::with(&wanted.lengths, None, 1);
    let got = driver::run_without_barriers(case, &rows, &wanted, plan).unwrap();
    let want = rows.attention(case, &wanted);
    let wrong = got.iter().zip(&want).filter(|(got, want)| (f64::from(**got) - **want).abs() > 0.01 || got.is_nan()).count();
    assert!(wrong > 0, "outputs are right without barriers");
}

#[test]
fn storing_fills_the_slots_that_are_named_and_no_others() {
    for case in CASES.iter() {
        let (line, d) = ((case.spec.kv_heads * case.spec.head_dim) as usize, case.spec.head_dim as usize);
        // Lengths are slots here: the pool has six blocks at least.
        let wanted = Wanted { lengths: vec![70, 32, 95, 33], window: None, splits: None, seed: 11 };
        let rows = Rows::scattered(case, &wanted);
        let got = driver::run(case, &rows, &wanted, Plan { splits: 0, chunk: 0 }).unwrap();
        let mut want = [rows.k.clone(), rows.v.clone()];
        for (token, slot) in wanted.lengths.iter().enumerate() {
            for (i, pool) in want.iter_mut().enumerate() {
                pool[*slot as usize * line..][..line].copy_from_slice(&rows.q[token * rows.line * d + i * line..][..line]);
            }
        }
        let same = |(got, want): (&f32, &f32)| got == want || (got.is_nan() && want.is_nan());
        assert!(got.len() == want.concat().len() && got.iter().zip(&want.concat()).all(same), "{case:?}");
    }
}
