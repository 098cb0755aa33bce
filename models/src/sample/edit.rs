//! What a row's draw changes in its logits before anything else: single ids' edits, and the mask of a grammar.

use crate::mlx::Res;
use kv::{Draw, Edit, Mask};
use mlx_rs::ops::indexing::{IndexOp, scatter_single, take_axis};
use mlx_rs::{Array, ops};

/// Logits `[vocab]` f32 of one row → the same, changed. Bans are made already: an edit of a banned id leaves it banned.
pub(super) fn apply(logits: &Array, draw: &Draw) -> Res<Array> {
    let edited = edit(logits, &draw.edits)?;
    match &draw.allowed {
        Some(mask) => super::keep(&edited, &bits(mask, logits.dim(0))?),
        None => Ok(edited),
    }
}

fn edit(z: &Array, edits: &[Edit]) -> Res<Array> {
    let vocab = z.dim(0) as u32;
    // An id beyond the vocabulary has no logit.
    let edits: Vec<&Edit> = edits.iter().filter(|edit| edit.id < vocab).collect();
    if edits.is_empty() {
        return Ok(z.clone());
    }
    let count = edits.len() as i32;
    let ids = Array::from_slice(&edits.iter().map(|edit| edit.id).collect::<Vec<u32>>(), &[count]);
    let column = |of: fn(&Edit) -> f32| Array::from_slice(&edits.iter().map(|edit| of(edit)).collect::<Vec<f32>>(), &[count]);
    let (add, scale, minus) = (column(|e| e.add), column(|e| e.scale), column(|e| e.minus));
    let biased = ops::add(take_axis(z, &ids, 0)?, &add)?;
    let scaled = ops::select(&biased.gt(Array::from_f32(0.0))?, &ops::divide(&biased, &scale)?, &ops::multiply(&biased, &scale)?)?;
    scatter_single(z, &ids, ops::subtract(scaled, minus)?.reshape(&[count, 1])?, 0)
}

/// `[vocab]`, whether each id is in the mask. Ids beyond its words are not.
fn bits(mask: &Mask, vocab: i32) -> Res<Array> {
    let words = (vocab as usize).div_ceil(32);
    let padded: Vec<u32> = mask.words().iter().copied().chain(std::iter::repeat(0)).take(words).collect();
    let powers: Vec<u32> = (0..32).map(|bit| 1 << bit).collect();
    let column = Array::from_slice(&padded, &[words as i32, 1]);
    let each = ops::remainder(ops::floor_divide(column, Array::from_slice(&powers, &[1, 32]))?, Array::from_slice(&[2u32], &[1]))?;
    each.eq(Array::from_slice(&[1u32], &[1]))?.reshape(&[-1])?.index(..vocab).as_dtype(mlx_rs::Dtype::Bool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kv::Sampling;

    fn applied(z: &[f32], draw: &Draw) -> Vec<f32> {
        apply(&Array::from_slice(z, &[z.len() as i32]), draw).unwrap().as_slice::<f32>().to_vec()
    }

    #[test]
    fn edits_and_masks_are_of_their_ids_alone() {
        let _turn = crate::mlx::turn();
        let plain = Draw::new(Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0 }, 0);
        let z: Vec<f32> = (0..70).map(|id| if id % 2 == 0 { 2.0 } else { -2.0 }).collect();
        assert_eq!(applied(&z, &plain), z);
        let edit = |id, add, scale, minus| Edit { id, add, scale, minus };
        let edits = vec![edit(0, 1.0, 1.0, 0.0), edit(1, 1.0, 2.0, 0.5), edit(2, 0.0, 2.0, 0.25), edit(69, 5.0, 1.5, 0.0), edit(70, 9.0, 1.0, 0.0)];
        let got = applied(&z, &Draw { edits, ..plain.clone() });
        assert_eq!((got[0], got[1], got[2], got[69]), (3.0, -2.5, 0.75, 2.0), "bias, then the division or the product, then the difference");
        assert_eq!(got[3..69], z[3..69]);
        // The last word is missing, and the first one's highest bit is its last id.
        let got = applied(&z, &Draw { allowed: Some(Mask::new([1 << 31 | 1, 0b10])), ..plain });
        let left: Vec<usize> = (0..70).filter(|id| got[*id].is_finite()).collect();
        assert_eq!(left, [0, 31, 33]);
    }
}
