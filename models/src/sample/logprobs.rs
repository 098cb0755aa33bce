//! Log-probabilities of what was drawn, and of the likeliest ids, for the rows that ask: of the model's logits as they are.

use crate::mlx::Res;
use kv::{Draw, Logprobs};
use mlx_rs::ops::indexing::{IndexOp, take_along_axis, take_axis};
use mlx_rs::{Array, Dtype, ops};

/// Still on the device.
#[derive(Debug)]
pub struct Reported {
    /// For each row that asked, its place among those that drew, and how many of the likeliest ids it wants.
    rows: Vec<(usize, u8)>,
    /// `[M, 1]` f32.
    drawn: Array,
    /// Ids `[M, n]` u32 and their log-probabilities, f32, in no order; n is the largest wish.
    top: Option<(Array, Array)>,
}

/// logits `[R, vocab]` f32 and the tokens drawn from them `[R]`. None: nobody asked.
pub(super) fn report(logits: &Array, tokens: &Array, draws: &[&Draw]) -> Res<Option<Reported>> {
    let vocab = logits.dim(1);
    let rows: Vec<(usize, u8)> = draws.iter().enumerate().filter_map(|(i, draw)| Some((i, draw.logprobs?))).collect();
    if rows.is_empty() {
        return Ok(None);
    }
    let at = Array::from_slice(&rows.iter().map(|(i, _)| *i as u32).collect::<Vec<u32>>(), &[rows.len() as i32]);
    let mine = if rows.len() == draws.len() { logits.clone() } else { take_axis(logits, &at, 0)? };
    let all = ops::subtract(&mine, ops::logsumexp_axis(&mine, -1, true)?)?;
    let tokens = take_axis(tokens, &at, 0)?.as_dtype(Dtype::Uint32)?.reshape(&[-1, 1])?;
    let drawn = take_along_axis(&all, tokens, -1)?.contiguous()?;
    let most = rows.iter().map(|(_, n)| i32::from(*n)).max().unwrap_or(0).min(vocab);
    let top = match most {
        0 => None,
        _ => {
            let ids = ops::argpartition_axis(ops::negative(&all)?, most - 1, -1)?.index((.., ..most));
            let of = take_along_axis(&all, &ids, -1)?;
            // A part of each row's ids is no slice of memory until it is laid out anew.
            Some((ids.contiguous()?, of.contiguous()?))
        }
    };
    Ok(Some(Reported { rows, drawn, top }))
}

impl Reported {
    /// What must be computed before [`Self::read`].
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        std::iter::once(&self.drawn).chain(self.top.iter().flat_map(|(ids, of)| [ids, of]))
    }

    /// For each row that asked, by its place among those that drew.
    pub fn read(&self) -> Vec<(usize, Logprobs)> {
        let drawn: &[f32] = self.drawn.as_slice();
        let one = |(m, &(place, wanted)): (usize, &(usize, u8))| {
            let mut top = self.top.as_ref().map_or_else(Vec::new, |(ids, of)| {
                let n = of.dim(1) as usize;
                let (ids, of): (&[u32], &[f32]) = (ids.as_slice(), of.as_slice());
                ids[m * n..(m + 1) * n].iter().copied().zip(of[m * n..(m + 1) * n].iter().copied()).collect()
            });
            // Equal ones by id, so that the same logits give the same list.
            top.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            top.truncate(wanted.into());
            (place, Logprobs { drawn: drawn[m], top })
        };
        self.rows.iter().enumerate().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kv::Sampling;

    #[test]
    fn they_are_of_the_logits_as_they_are() {
        let _turn = crate::mlx::turn();
        let plain = Draw::new(Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0 }, 0);
        let asks = |n| Draw { logprobs: Some(n), banned: vec![2], ..plain.clone() };
        // Beside each other, and all of a step as well as some: layouts differ.
        let row = [0.5f32, 1.0, 3.0, -1.0];
        let z = Array::from_slice(&[row, row, row].concat(), &[3, 4]);
        let draws = [asks(0), plain.clone(), asks(2)];
        let drawn = super::super::draw(&z, &draws.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(drawn.tokens.as_slice::<i32>(), [1, 2, 1]);
        let said = drawn.reported.unwrap().read();
        let all: Vec<Draw> = (0..3).map(|_| Draw { sampling: Sampling { temperature: 1.0, ..plain.sampling.clone() }, ..asks(1) }).collect();
        let of_all = super::super::draw(&z, &all.iter().collect::<Vec<_>>()).unwrap().reported.unwrap().read();
        assert!(of_all.iter().all(|(_, of)| of.top.len() == 1 && of.top[0].0 == 2), "{of_all:?}");
        let total = row.iter().map(|z| z.exp()).sum::<f32>().ln();
        assert_eq!(
            said.iter().map(|(place, of)| (*place, of.top.iter().map(|(id, _)| *id).collect())).collect::<Vec<(usize, Vec<u32>)>>(),
            [(0, vec![]), (2, vec![2, 1])]
        );
        for (_, of) in &said {
            assert!((of.drawn - (1.0 - total)).abs() < 1e-6, "{of:?}");
        }
        assert!((said[1].1.top[0].1 - (3.0 - total)).abs() < 1e-6 && said[1].1.top[1].1 == said[1].1.drawn);
    }
}
