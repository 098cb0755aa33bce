//! Drawing a token a row, on the device: filters, then the Gumbel trick with a key that only the row knows.
//!
//! A row's noise depends on its seed and its token's index and on nothing else. With Gumbel noise the winner is the largest
//! of (logit + noise), so a change of the logits in their last bits (another batch width, say) changes the draw only where
//! two candidates are that close.

mod edit;
mod logprobs;

pub use logprobs::Reported;

use crate::mlx::Res;
use kv::Draw;
use mlx_rs::ops::indexing::{IndexOp, argmax_axis, scatter_single, take_axis, topk_axis};
use mlx_rs::{Array, Dtype, ops, random};

/// Tokens drawn by a step, still on the device.
#[derive(Debug)]
pub struct Drawn {
    /// `[R]` i32, in the order of the draws.
    pub tokens: Array,
    /// `[R]`: whether all of a row's logits are finite.
    pub finite: Array,
    /// What is said of the tokens of those rows that asked for it.
    pub reported: Option<Reported>,
}

/// logits `[R, vocab]` f32 → one token a row.
pub fn draw(logits: &Array, draws: &[&Draw]) -> Res<Drawn> {
    // Adding up is one pass, a NaN or infinity anywhere makes the sum one of the two, and neither less itself is 0.
    let sum = logits.sum_axis(-1, false)?;
    let finite = ops::subtract(&sum, &sum)?.eq(Array::from_f32(0.0))?;
    let free = &ban(logits, draws)?;
    let mut tokens = argmax_axis(free, -1, false)?.as_dtype(Dtype::Int32)?;
    // Rows that want more than the largest of their logits are drawn by themselves: what one asks for is no work for another.
    for (i, draw) in draws.iter().enumerate().filter(|(_, draw)| !is_plain(draw)) {
        let token = one(&edit::apply(&free.index(i as i32), draw)?, draw)?;
        tokens = scatter_single(&tokens, Array::from_slice(&[i as u32], &[1]), token.reshape(&[1, 1])?, 0)?;
    }
    let reported = logprobs::report(logits, &tokens, draws)?;
    Ok(Drawn { tokens, finite, reported })
}

/// Greedy, and nothing but bans.
fn is_plain(draw: &Draw) -> bool {
    draw.sampling.temperature <= 0.0 && draw.allowed.is_none() && draw.edits.is_empty()
}

/// Ids that a row must not draw get no chance.
fn ban(logits: &Array, draws: &[&Draw]) -> Res<Array> {
    let vocab = logits.dim(1) as u32;
    let rows = draws.iter().zip(0u32..);
    // An id beyond the vocabulary cannot be drawn anyway, and would be somebody else's cell.
    let cells: Vec<u32> = rows.flat_map(|(d, row)| d.banned.iter().filter(|id| **id < vocab).map(move |id| row * vocab + id)).collect();
    if cells.is_empty() {
        return Ok(logits.clone());
    }
    let count = cells.len() as i32;
    let never = Array::from_slice(&vec![f32::NEG_INFINITY; cells.len()], &[count, 1]);
    scatter_single(logits.reshape(&[-1])?, Array::from_slice(&cells, &[count]), &never, 0)?.reshape(&[-1, vocab as i32])
}

/// One row: logits `[vocab]` → a token, i32.
fn one(logits: &Array, draw: &Draw) -> Res<Array> {
    let s = &draw.sampling;
    if s.temperature <= 0.0 {
        return argmax_axis(logits, -1, false)?.as_dtype(Dtype::Int32);
    }
    // Relative to the best, so that no temperature above 0 makes an infinity of it.
    let mut z = ops::divide(ops::subtract(logits, logits.max(false)?)?, Array::from_f32(s.temperature))?;
    if (s.top_k > 0 && (s.top_k as i32) < z.dim(0)) || s.top_p < 1.0 {
        z = likeliest(&z, s.top_k, s.top_p)?;
    }
    if s.min_p > 0.0 {
        let floor = ops::add(z.max(false)?, Array::from_f32(s.min_p.ln()))?;
        z = keep(&z, &z.ge(&floor)?)?;
    }
    let noise = random::gumbel::<f32>(&[z.dim(0)], &key(s.seed, draw.index))?;
    argmax_axis(&ops::add(&z, &noise)?, -1, false)?.as_dtype(Dtype::Int32)
}

/// Keeps the `top_k` likeliest, and of those the smallest set that reaches `top_p` of all probability.
fn likeliest(z: &Array, top_k: u32, top_p: f32) -> Res<Array> {
    let vocab = z.dim(0);
    // A few are found without sorting all.
    let few = if top_k > 0 && (top_k as i32) < vocab { topk_axis(z, top_k as i32, -1)? } else { z.clone() };
    let sorted = ops::negative(ops::sort_axis(ops::negative(&few)?, -1)?)?;
    let p = ops::softmax_axis(&sorted, -1, true)?;
    // A token is kept while what stands before it has not reached top_p: the first is always kept.
    let before = ops::subtract(ops::cumsum(&p, 0, None, None)?, &p)?;
    let kept = before.lt(Array::from_f32(top_p.max(f32::MIN_POSITIVE)))?;
    let count = kept.as_dtype(Dtype::Int32)?.sum(false)?;
    let floor = take_axis(&sorted, ops::subtract(&count, Array::from_int(1))?, 0)?;
    keep(z, &z.ge(&floor)?)
}

fn keep(z: &Array, mask: &Array) -> Res<Array> {
    ops::select(mask, z, Array::from_f32(f32::NEG_INFINITY))
}

/// The key of a draw: two words of a mixed counter (SplitMix64, Steele et al. 2014), for MLX's threefry.
fn key(seed: u64, index: u32) -> Array {
    let mut x = seed ^ u64::from(index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for _ in 0..2 {
        x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^= x >> 31;
    }
    Array::from_slice(&[(x >> 32) as u32, x as u32], &[2])
}

#[cfg(test)]
mod tests;
