//! Drawing a token a row, on the device: filters, then the Gumbel trick with a key that only the row knows.
//!
//! A row's noise depends on its seed and its token's index and on nothing else. With Gumbel noise the winner is the largest
//! of (logit + noise), so a change of the logits in their last bits (another batch width, say) changes the draw only where
//! two candidates are that close.

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
}

/// logits `[R, vocab]` f32 → one token a row.
pub fn draw(logits: &Array, draws: &[&Draw]) -> Res<Drawn> {
    // Adding up is one pass, a NaN or infinity anywhere makes the sum one of the two, and neither less itself is 0.
    let sum = logits.sum_axis(-1, false)?;
    let finite = ops::subtract(&sum, &sum)?.eq(Array::from_f32(0.0))?;
    let logits = &ban(logits, draws)?;
    let greedy = argmax_axis(logits, -1, false)?.as_dtype(Dtype::Int32)?;
    let sampled: Vec<usize> = (0..draws.len()).filter(|i| draws[*i].sampling.temperature > 0.0).collect();
    if sampled.is_empty() {
        return Ok(Drawn { tokens: greedy, finite });
    }
    let mut tokens = greedy;
    for i in sampled {
        let token = one(&logits.index(i as i32), draws[i])?;
        tokens = scatter_single(&tokens, Array::from_slice(&[i as u32], &[1]), token.reshape(&[1, 1])?, 0)?;
    }
    Ok(Drawn { tokens, finite })
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
mod tests {
    use super::*;
    use kv::Sampling;

    fn of(temperature: f32, seed: u64, index: u32) -> Draw {
        Draw { sampling: Sampling { temperature, top_p: 1.0, top_k: 0, min_p: 0.0, seed }, index, banned: Vec::new() }
    }

    fn tokens(rows: &[&[f32]], draws: &[Draw]) -> Vec<i32> {
        let flat: Vec<f32> = rows.concat();
        let z = Array::from_slice(&flat, &[rows.len() as i32, rows[0].len() as i32]);
        let drawn = draw(&z, &draws.iter().collect::<Vec<_>>()).unwrap();
        drawn.tokens.as_slice::<i32>().to_vec()
    }

    /// How often each of the row's tokens is drawn in `n` draws of one seed.
    fn shares(row: &[f32], base: &Draw, n: u32) -> Vec<f32> {
        let mut counts = vec![0f32; row.len()];
        for first in (0..n).step_by(50) {
            let draws: Vec<Draw> = (first..first + 50).map(|index| Draw { index, ..base.clone() }).collect();
            for t in tokens(&vec![row; 50], &draws) {
                counts[t as usize] += 1.0 / n as f32;
            }
        }
        counts
    }

    const ROW: [f32; 5] = [0.0, 2.0, 1.0, -1.0, 0.5];

    #[test]
    fn greedy_is_the_largest_that_is_not_banned() {
        let _turn = crate::mlx::turn();
        let banned = Draw { banned: vec![1, 4_000_000_000], ..of(0.0, 7, 0) };
        assert_eq!(tokens(&[&ROW, &ROW], &[of(0.0, 7, 0), banned]), [1, 2]);
    }

    #[test]
    fn draws_follow_the_softmax_at_the_temperature() {
        let _turn = crate::mlx::turn();
        for temperature in [0.5, 1.0, 2.0] {
            let n = 4000;
            let got = shares(&ROW, &of(temperature, 11, 0), n);
            let weights: Vec<f32> = ROW.iter().map(|z| (z / temperature).exp()).collect();
            let total: f32 = weights.iter().sum();
            for (g, w) in got.iter().zip(&weights) {
                let p = w / total;
                // Five standard deviations of a binomial share: one seed, so it either always holds or never.
                assert!((g - p).abs() <= 5.0 * (p * (1.0 - p) / n as f32).sqrt(), "temperature {temperature}: {g} for {p}");
            }
        }
    }

    #[test]
    fn filters_leave_only_what_they_keep() {
        let _turn = crate::mlx::turn();
        // Probabilities of ROW: 0.076 0.563 0.207 0.028 0.126, so by rank 1, 2, 4, 0, 3.
        let with = |top_p: f32, top_k: u32, min_p: f32| {
            let base = Draw { sampling: Sampling { temperature: 1.0, top_p, top_k, min_p, seed: 3 }, ..of(1.0, 3, 0) };
            shares(&ROW, &base, 1000).iter().map(|s| *s > 0.0).collect::<Vec<bool>>()
        };
        let kept = |ids: &[usize]| (0..5).map(|i| ids.contains(&i)).collect::<Vec<bool>>();
        assert_eq!(with(1.0, 2, 0.0), kept(&[1, 2]));
        assert_eq!(with(0.5, 0, 0.0), kept(&[1]), "the first reaches a half alone");
        assert_eq!(with(0.6, 0, 0.0), kept(&[1, 2]));
        assert_eq!(with(0.85, 0, 0.0), kept(&[1, 2, 4]));
        assert_eq!(with(1.0, 0, 0.3), kept(&[1, 2]), "0.3 of the likeliest is 0.17");
        assert_eq!(with(1e-9, 0, 0.0), kept(&[1]), "one token is always left");
        assert_eq!(with(1.0, 99, 0.0), kept(&[0, 1, 2, 3, 4]));
        assert_eq!(with(0.7, 3, 0.0), kept(&[1, 2]), "of the three likeliest's mass");
    }

    #[test]
    fn a_draw_depends_on_seed_and_index_and_on_no_neighbour() {
        let _turn = crate::mlx::turn();
        let flat = [0f32; 64];
        let mine = of(1.0, 5, 9);
        let alone = tokens(&[&flat], std::slice::from_ref(&mine))[0];
        let among = tokens(&[&flat, &flat, &flat], &[of(1.0, 6, 9), mine.clone(), of(0.0, 0, 0)]);
        assert_eq!(among[1], alone);
        let other_seeds: Vec<i32> = (100..140).map(|s| tokens(&[&flat], &[of(1.0, s, 9)])[0]).collect();
        let other_indices: Vec<i32> = (100..140).map(|i| tokens(&[&flat], &[of(1.0, 5, i)])[0]).collect();
        for many in [other_seeds, other_indices] {
            assert!(many.iter().collect::<std::collections::BTreeSet<_>>().len() > 20, "40 draws of 64 equal tokens: {many:?}");
        }
    }

    #[test]
    fn a_row_that_is_not_finite_is_told_from_its_neighbours() {
        let _turn = crate::mlx::turn();
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let rows: [&[f32]; 2] = [&[0.0, bad, 1.0], &[0.0, 3.0, 1.0]];
            let z = Array::from_slice(&rows.concat(), &[2, 3]);
            let draws = [of(0.0, 1, 0), of(0.0, 1, 0)];
            let drawn = draw(&z, &draws.iter().collect::<Vec<_>>()).unwrap();
            assert_eq!(drawn.finite.as_slice::<bool>(), [false, true]);
            assert_eq!(drawn.tokens.as_slice::<i32>()[1], 1);
        }
    }
}
