//! A chunk of a prompt as attention takes it: which queries, which keys, and what each query sees.
//!
//! On a GPU both are filled up to one of few lengths, because cuDNN, which MLX asks there, plans for each pair of lengths anew
//! and takes some 40 ms for it. What is filled in changes nothing: queries that are nobody's are dropped afterwards, and keys
//! that are nobody's stand after all others, where no query of the chunk looks.

use super::Shape;
use super::rows::indices;
use crate::mlx::{Place, Res};
use crate::packing::Chunk;
use mlx_rs::fast::ScaledDotProductAttentionMask as Mask;
use mlx_rs::{Array, Dtype, ops};

/// Queries, and keys of a chunk that does not begin its row, are filled up to multiples of these, or of an eighth of the next
/// power of two if that is more: some fifty pairs of lengths up to 8,192.
const QUERIES: u32 = 128;
const KEYS: u32 = 512;

/// One row's chunk.
#[derive(Debug)]
pub(super) struct ChunkRows {
    pub(super) at: Chunk,
    /// Places of the queries in the pass, `[queries]`: of those beyond the chunk's, its first.
    pub(super) queries: Array,
    /// Slots of the keys, `[keys]`; of those beyond the row's, slot 0.
    pub(super) keys: Array,
    /// What the queries see in layers of a window; None: all up to their own positions, and the last query's is the last key.
    sees: Vec<(Option<usize>, Option<Array>)>,
}

impl ChunkRows {
    /// `dtype` is that of keys and queries.
    pub(super) fn new(at: &Chunk, shape: &Shape, dtype: Dtype) -> Res<ChunkRows> {
        let (queries, keys) = lengths(at, shape.place);
        let mut places: Vec<u32> = (at.first..at.first + at.count).collect();
        places.resize(queries as usize, at.first);
        let mut slots = at.slots.clone();
        slots.resize(keys as usize, 0);
        let mut windows: Vec<Option<usize>> = shape.windows.iter().map(|w| w.filter(|w| *w < keys as usize)).collect();
        windows.sort_unstable();
        windows.dedup();
        let sees = windows.into_iter().map(|window| {
            let all = window.is_none() && at.start + queries == keys;
            Ok((window, if all { None } else { Some(mask(at.start, queries, keys, window, (shape.place, dtype))?) }))
        });
        let sees = sees.collect::<Res<_>>()?;
        Ok(ChunkRows { queries: indices(&places, &[queries as i32]), keys: indices(&slots, &[keys as i32]), sees, at: at.clone() })
    }

    pub(super) fn mask(&self, window: Option<usize>) -> Mask<'_> {
        let window = window.filter(|w| *w < self.keys.dim(0) as usize);
        let of = self.sees.iter().find(|(of, _)| *of == window).and_then(|(_, mask)| mask.as_ref());
        of.map_or(Mask::Causal, Mask::Array)
    }
}

/// Queries and keys of a chunk, filled up where that pays.
fn lengths(at: &Chunk, place: Place) -> (u32, u32) {
    if place == Place::Cpu {
        return (at.count, at.start + at.count);
    }
    let queries = filled(at.count, QUERIES);
    (queries, if at.start == 0 { queries } else { filled(at.start + queries, KEYS) })
}

fn filled(n: u32, grain: u32) -> u32 {
    n.next_multiple_of(grain.max(n.next_power_of_two() / 8))
}

/// `[1, 1, queries, keys]`: a query at position p sees keys above p - window (mlx-lm `create_causal_mask`) and none after p. For a
/// GPU what is to be added to scores, since MLX would make that of each head's truth values in every layer.
fn mask(start: u32, queries: u32, keys: u32, window: Option<usize>, (place, dtype): (Place, Dtype)) -> Res<Array> {
    let range = |from: u32, count: u32, shape: [i32; 4]| indices(&(from..from + count).collect::<Vec<u32>>(), &shape);
    let (q, k) = (range(start, queries, [1, 1, queries as i32, 1]), range(0, keys, [1, 1, 1, keys as i32]));
    let mut sees = k.le(&q)?;
    if let Some(window) = window {
        // Less than the keys, which are counted in u32.
        sees = sees.logical_and(ops::add(&k, indices(&[window as u32], &[1]))?.gt(&q)?)?;
    }
    if place == Place::Cpu {
        return Ok(sees);
    }
    let number = |x: f32| Array::from_f32(x).as_dtype(dtype);
    ops::select(&sees, number(0.0)?, number(f32::NEG_INFINITY)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(start: u32, count: u32) -> Chunk {
        Chunk { first: 3, count, start, slots: (100..100 + start + count).collect() }
    }

    #[test]
    fn few_pairs_of_lengths_are_asked_for() {
        for ((start, count), want) in [
            ((0, 1), (128, 128)),
            ((0, 128), (128, 128)),
            ((0, 129), (256, 256)),
            ((0, 500), (512, 512)),
            ((0, 2000), (2048, 2048)),
            ((32, 100), (128, 512)),
            ((512, 300), (384, 1024)),
            ((4000, 512), (512, 5120)),
            ((60_000, 512), (512, 65_536)),
        ] {
            assert_eq!(lengths(&chunk(start, count), Place::Gpu), want, "{count} at {start}");
            assert_eq!(lengths(&chunk(start, count), Place::Cpu), (count, start + count));
        }
        let mut pairs: Vec<(u32, u32)> =
            (0..8192u32).step_by(37).flat_map(|start| (1..=512).step_by(13).map(move |count| lengths(&chunk(start, count), Place::Gpu))).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert!(pairs.len() <= 64, "{}", pairs.len());
    }

    /// Filled up or not, each query sees the same keys, and none that is nobody's.
    #[test]
    fn what_is_filled_in_is_not_seen() {
        let _turn = crate::mlx::turn();
        for (start, count, window) in [(0, 5, None), (40, 7, None), (40, 7, Some(16)), (600, 70, Some(100)), (0, 5, Some(3))] {
            let shape = |place| Shape { heads: 1, kv_heads: 1, head_dim: 8, windows: vec![None, window], place };
            let rows = ChunkRows::new(&chunk(start, count), &shape(Place::Gpu), Dtype::Float32).unwrap();
            let keys = rows.keys.dim(0) as u32;
            for window in [None, window] {
                let Mask::Array(mask) = rows.mask(window) else {
                    assert!(start == 0 && window.is_none_or(|w| w >= keys as usize), "MLX's own mask ends at the last key");
                    continue;
                };
                let cells = mask.as_slice::<f32>().to_vec();
                for (q, seen) in cells.chunks(keys as usize).take(count as usize).enumerate() {
                    let p = start + q as u32;
                    let sees: Vec<u32> = (0..keys).filter(|k| seen[*k as usize] == 0.0).collect();
                    let want: Vec<u32> = (0..=p).filter(|k| window.is_none_or(|w| *k as usize + w > p as usize)).collect();
                    assert_eq!(sees, want, "query {q} of {count} at {start}, window {window:?}");
                    assert!(seen.iter().all(|x| *x == 0.0 || *x == f32::NEG_INFINITY));
                }
            }
            let slots = rows.keys.as_slice::<u32>();
            assert!(slots[(start + count) as usize..].iter().all(|slot| *slot == 0));
            assert_eq!(rows.queries.as_slice::<u32>()[..count as usize], (3..3 + count).collect::<Vec<u32>>());
        }
    }
}
