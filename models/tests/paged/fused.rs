//! The kernels that replace several of MLX's operations, each against its definition in f64.

use crate::driver::{back, fused, numbers, type_name, words};
use crate::naive::Random;
use mlx_rs::Dtype;

/// One set of a kernel's constants.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fused {
    Rotate { dtype: Dtype, head_dim: usize, heads: usize, kv_heads: usize, paired: bool, norms: bool },
    Swiglu { dtype: Dtype, inner: usize },
    AddNorm { dtype: Dtype, hidden: usize, warps: usize },
}

const fn rotate(dtype: Dtype, [head_dim, heads, kv_heads]: [usize; 3], paired: bool, norms: bool) -> Fused {
    Fused::Rotate { dtype, head_dim, heads, kv_heads, paired, norms }
}

/// Heads that fill threadgroups and that do not, both pairings, with and without norms; rows that fill a threadgroup's threads or not.
pub(crate) static FUSED: [Fused; 15] = [
    rotate(Dtype::Bfloat16, [128, 8, 2], false, false),
    rotate(Dtype::Bfloat16, [128, 8, 2], false, true),
    rotate(Dtype::Float32, [16, 4, 2], false, false),
    rotate(Dtype::Float32, [16, 4, 2], true, true),
    rotate(Dtype::Float16, [64, 3, 1], true, false),
    rotate(Dtype::Float32, [80, 5, 5], true, false),
    rotate(Dtype::Float32, [72, 7, 1], false, true),
    rotate(Dtype::Bfloat16, [256, 2, 1], false, true),
    Fused::Swiglu { dtype: Dtype::Bfloat16, inner: 1024 },
    Fused::Swiglu { dtype: Dtype::Float32, inner: 40 },
    Fused::Swiglu { dtype: Dtype::Float16, inner: 777 },
    Fused::AddNorm { dtype: Dtype::Bfloat16, hidden: 1024, warps: 8 },
    Fused::AddNorm { dtype: Dtype::Float32, hidden: 64, warps: 1 },
    Fused::AddNorm { dtype: Dtype::Float16, hidden: 999, warps: 8 },
    Fused::AddNorm { dtype: Dtype::Float32, hidden: 4500, warps: 32 },
];

const EPS: f64 = 1e-5;
const NOBODY: u32 = u32::MAX;

impl Fused {
    /// The program's function for it.
    pub(crate) fn call(&self) -> String {
        match *self {
            Fused::Rotate { dtype, head_dim, heads, kv_heads, paired, norms } => {
                format!("run_rotate<{}, {head_dim}, {heads}, {kv_heads}, {}, {}>()", type_name(dtype), i32::from(paired), i32::from(norms))
            }
            Fused::Swiglu { dtype, inner } => format!("run_swiglu<{}, {inner}>()", type_name(dtype)),
            Fused::AddNorm { dtype, hidden, warps } => format!("run_add_norm<{}, {hidden}, {warps}>()", type_name(dtype)),
        }
    }
}

/// Half a unit in the last place, relatively.
fn half_ulp(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Bfloat16 => 2f64.powi(-8),
        Dtype::Float16 => 2f64.powi(-11),
        _ => 2f64.powi(-24),
    }
}

fn round(dtype: Dtype, x: f64) -> f64 {
    match dtype {
        Dtype::Bfloat16 => half::bf16::from_f64(x).to_f64(),
        Dtype::Float16 => half::f16::from_f64(x).to_f64(),
        _ => f64::from(x as f32),
    }
}

fn random(random: &mut Random, count: usize, dtype: Dtype) -> Vec<f32> {
    (0..count).map(|_| random.number(dtype)).collect()
}

/// What rounding explains: `roundings` halves of an ulp of the value wanted, and of values of size `beside` that went into it.
fn near(case: &Fused, got: &[f32], want: &[f64], dtype: Dtype, roundings: f64, beside: f64) {
    assert_eq!(got.len(), want.len(), "{case:?}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let tolerance = half_ulp(dtype) * (roundings * want.abs() + beside) + 1e-6;
        assert!((f64::from(*got) - want).abs() <= tolerance, "{case:?}: output {i} is {got}, not {want}");
    }
}

/// `x` over its root mean square, rounded, times the weight, rounded.
fn normed(x: &[f64], weight: &[f32], dtype: Dtype) -> Vec<f64> {
    let scale = (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + EPS).sqrt().recip();
    x.iter().zip(weight).map(|(x, w)| round(dtype, round(dtype, x * scale) * f64::from(*w))).collect()
}

#[test]
fn rotating_gives_queries_and_fills_the_slots_that_are_named_and_no_others() {
    for (which, case) in FUSED.iter().enumerate() {
        let Fused::Rotate { dtype, head_dim: d, heads, kv_heads, paired, norms } = *case else { continue };
        let (at, pool) = ([5u32, 0, NOBODY, 6], 8usize);
        let (all, line) = (heads + 2 * kv_heads, kv_heads * d);
        let mut dice = Random(31);
        let qkv = random(&mut dice, at.len() * all * d, dtype);
        let angles: Vec<f64> = (0..at.len() * d / 2).map(|i| i as f64 * 0.37).collect();
        let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|a| (a.cos() as f32, a.sin() as f32)).unzip();
        let (q_norm, k_norm) = (random(&mut dice, d, dtype), random(&mut dice, d, dtype));
        let before = [random(&mut dice, pool * line, dtype), random(&mut dice, pool * line, dtype)];
        let mut input = Vec::new();
        words(&mut input, &[at.len() as u32, pool as u32]);
        numbers(&mut input, &qkv, dtype);
        numbers(&mut input, &cos, Dtype::Float32);
        numbers(&mut input, &sin, Dtype::Float32);
        for values in [&q_norm, &k_norm, &before[0], &before[1]] {
            numbers(&mut input, values, dtype);
        }
        words(&mut input, &at);

        let turned = |token: usize, head: usize, weight: &[f32]| -> Vec<f64> {
            let x: Vec<f64> = qkv[(token * all + head) * d..][..d].iter().map(|x| f64::from(*x)).collect();
            let x = if norms { normed(&x, weight, dtype) } else { x };
            let mut out = x.clone();
            for p in 0..d / 2 {
                let (a, b) = if paired { (2 * p, 2 * p + 1) } else { (p, p + d / 2) };
                let (c, s) = (f64::from(cos[token * d / 2 + p]), f64::from(sin[token * d / 2 + p]));
                (out[a], out[b]) = (x[a] * c - x[b] * s, x[a] * s + x[b] * c);
            }
            out
        };
        let mut want_q = Vec::new();
        let mut want = before.map(|pool| pool.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>());
        for (token, slot) in at.iter().enumerate() {
            want_q.extend((0..heads).flat_map(|h| turned(token, h, &q_norm)));
            if *slot != NOBODY {
                let k: Vec<f64> = (0..kv_heads).flat_map(|h| turned(token, heads + h, &k_norm)).collect();
                want[0][*slot as usize * line..][..line].copy_from_slice(&k);
                let v = qkv[(token * all + heads + kv_heads) * d..][..line].iter().map(|x| f64::from(*x));
                want[1][*slot as usize * line..][..line].copy_from_slice(&v.collect::<Vec<f64>>());
            }
        }
        let got = back(&fused(which, 5, &input, true).unwrap(), dtype);
        let (got_q, got_pools) = got.split_at(want_q.len());
        let (got_k, got_v) = got_pools.split_at(pool * line);
        // A norm that is rounded the other way moves a value of up to 3 times 3 by two roundings, in each term.
        let beside = if norms { 36.0 } else { 0.0 };
        near(case, got_q, &want_q, dtype, 1.0, beside);
        near(case, got_k, &want[0], dtype, 1.0, beside);
        assert!(got_v.iter().zip(&want[1]).all(|(got, want)| f64::from(*got) == *want), "{case:?}: V is as it came");
    }
}

#[test]
fn swiglu_is_its_definition() {
    for (which, case) in FUSED.iter().enumerate() {
        let Fused::Swiglu { dtype, inner } = *case else { continue };
        let tokens = 3;
        let mut both = random(&mut Random(17), tokens * 2 * inner, dtype);
        // The ends, where the exponential is beyond f32.
        both[..6].copy_from_slice(&[-200.0, -100.0, -30.0, 30.0, 100.0, 0.0]);
        let mut input = Vec::new();
        words(&mut input, &[tokens as u32]);
        numbers(&mut input, &both, dtype);
        let one = |row: &[f32], i: usize| {
            let gate = f64::from(row[i]);
            gate / (1.0 + (-gate).exp()) * f64::from(row[inner + i])
        };
        let want: Vec<f64> = both.chunks_exact(2 * inner).flat_map(|row| (0..inner).map(move |i| one(row, i))).collect();
        near(case, &back(&fused(which, 5, &input, true).unwrap(), dtype), &want, dtype, 1.0 + 40.0 * half_ulp(Dtype::Float32) / half_ulp(dtype), 0.0);
    }
}

/// Sums, then norms.
fn add_norm(which: usize, seed: u32, barriers: bool) -> (Vec<f32>, Vec<f64>, Vec<f64>) {
    let Fused::AddNorm { dtype, hidden, .. } = FUSED[which] else { unreachable!("asked for the kernel of sums") };
    let tokens = 3;
    let mut dice = Random(seed.into());
    let (x, y) = (random(&mut dice, tokens * hidden, dtype), random(&mut dice, tokens * hidden, dtype));
    let weight = random(&mut dice, hidden, dtype);
    let mut input = Vec::new();
    words(&mut input, &[tokens as u32]);
    for values in [&x, &y, &weight] {
        numbers(&mut input, values, dtype);
    }
    let sum: Vec<f64> = x.iter().zip(&y).map(|(x, y)| round(dtype, f64::from(*x) + f64::from(*y))).collect();
    let norms = sum.chunks_exact(hidden).flat_map(|row| normed(row, &weight, dtype)).collect();
    (back(&fused(which, seed, &input, barriers).unwrap(), dtype), sum, norms)
}

#[test]
fn sums_are_exact_and_their_norms_are_as_defined() {
    for (which, case) in FUSED.iter().enumerate() {
        let Fused::AddNorm { dtype, .. } = *case else { continue };
        let (got, sum, norms) = add_norm(which, 23, true);
        assert!(got.iter().zip(&sum).all(|(got, want)| f64::from(*got) == *want), "{case:?}");
        // The normed value may be rounded the other way, which its product with a weight of up to 3 shows.
        near(case, &got[sum.len()..], &norms, dtype, 3.0, 9.0 * half_ulp(Dtype::Float32) / half_ulp(dtype));
    }
}

#[test]
fn a_missing_barrier_in_a_norm_is_noticed() {
    // The same body with barriers that do nothing: if this gave the right norms, the test above could not fail for want of one.
    let which = FUSED.iter().position(|c| matches!(c, Fused::AddNorm { warps: 32, .. })).unwrap();
    let (got, sum, norms) = add_norm(which, 23, false);
    let wrong = got[sum.len()..].iter().zip(&norms).filter(|(got, want)| got.is_nan() || (f64::from(**got) - **want).abs() > 0.01).count();
    assert!(wrong > 0, "norms are right without barriers");
}
