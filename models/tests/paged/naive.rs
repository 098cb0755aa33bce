//! Random rows in a scattered pool, and attention as its definition says, in f64.

use crate::driver::Case;
use kv::step::BLOCK_TOKENS;
use mlx_rs::Dtype;

/// What a test asks for.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) lengths: Vec<u32>,
    pub(crate) window: Option<u32>,
    /// None: as planned.
    pub(crate) splits: Option<u32>,
    pub(crate) seed: u32,
}

/// Rows as a kernel gets them; all numbers are exact in the case's type.
pub(crate) struct Rows {
    /// Heads in a row of `q`: more than the model has, as in a packed projection.
    pub(crate) line: usize,
    pub(crate) q: Vec<f32>,
    pub(crate) k: Vec<f32>,
    pub(crate) v: Vec<f32>,
    pub(crate) slots: usize,
    pub(crate) width: usize,
    pub(crate) table: Vec<u32>,
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        // splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between -3 and 3, rounded to the type.
    pub(crate) fn number(&mut self, dtype: Dtype) -> f32 {
        let sum: f64 = (0..3).map(|_| (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0).sum();
        match dtype {
            Dtype::Bfloat16 => half::bf16::from_f64(sum).to_f32(),
            Dtype::Float16 => half::f16::from_f64(sum).to_f32(),
            _ => sum as f32,
        }
    }
}

impl Rows {
    /// Every row's blocks lie anywhere; every slot that no row's key is in holds NaN, in the same block too. Block 0 is zero.
    pub(crate) fn scattered(case: &Case, wanted: &Wanted) -> Rows {
        let spec = &case.spec;
        let mut random = Random(wanted.seed.into());
        let block = BLOCK_TOKENS as usize;
        let needed: Vec<usize> = wanted.lengths.iter().map(|l| l.div_ceil(BLOCK_TOKENS) as usize).collect();
        let blocks = needed.iter().sum::<usize>() + 3;
        let mut free: Vec<u32> = (1..=blocks as u32).collect();
        // A table wider than any row needs must do no harm.
        let width = needed.iter().max().unwrap() + 1;
        let line = (spec.kv_heads * spec.head_dim) as usize;
        let slots = (blocks + 1) * block;
        let (mut k, mut v) = (vec![f32::NAN; slots * line], vec![f32::NAN; slots * line]);
        k[..block * line].fill(0.0);
        v[..block * line].fill(0.0);
        let mut table = vec![0; wanted.lengths.len() * width];
        for (row, length) in wanted.lengths.iter().enumerate() {
            for b in 0..needed[row] {
                table[row * width + b] = free.swap_remove(random.bits() as usize % free.len());
            }
            for at in 0..*length as usize {
                let slot = table[row * width + at / block] as usize * block + at % block;
                k[slot * line..][..line].fill_with(|| random.number(spec.dtype));
                v[slot * line..][..line].fill_with(|| random.number(spec.dtype));
            }
            // What lies behind a window was given up, and block 0 stands for it.
            let behind = wanted.window.map_or(0, |w| length.saturating_sub(w)) as usize / block;
            table[row * width..][..behind].fill(0);
        }
        let heads = spec.heads as usize + 2 * spec.kv_heads as usize;
        let q = (0..wanted.lengths.len() * heads * spec.head_dim as usize).map(|_| random.number(spec.dtype)).collect();
        Rows { line: heads, q, k, v, slots, width, table }
    }

    /// `[rows, heads, head_dim]`.
    pub(crate) fn attention(&self, case: &Case, wanted: &Wanted) -> Vec<f64> {
        let spec = &case.spec;
        let (heads, kv_heads, d) = (spec.heads as usize, spec.kv_heads as usize, spec.head_dim as usize);
        let block = BLOCK_TOKENS as usize;
        let mut out = Vec::new();
        for (row, length) in wanted.lengths.iter().enumerate() {
            // A query at the last position sees keys k with k + window >= length.
            let seen = (0..*length).filter(|k| wanted.window.is_none_or(|w| k + w >= *length));
            let slots: Vec<usize> = seen.map(|k| self.table[row * self.width + k as usize / block] as usize * block + k as usize % block).collect();
            for head in 0..heads {
                let at = |slot: &usize| (slot * kv_heads + head / (heads / kv_heads)) * d;
                let q = &self.q[(row * self.line + head) * d..][..d];
                let dot = |slot: &usize| q.iter().zip(&self.k[at(slot)..]).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() / (d as f64).sqrt();
                let scores: Vec<f64> = slots.iter().map(dot).collect();
                let high = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - high).exp()).collect();
                let total: f64 = weights.iter().sum();
                out.extend((0..d).map(|i| slots.iter().zip(&weights).map(|(s, w)| w * f64::from(self.v[at(s) + i])).sum::<f64>() / total));
            }
        }
        out
    }
}
