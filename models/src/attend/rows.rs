//! A step's rows as attention reads them: index arrays, made once a step and used by every layer.

use super::{Pool, Shape};
use crate::kernels::{Batch, Paged, Slots};
use crate::mlx::Res;
use crate::packing::{self, Chunk, DecodeGroup, Packing};
use kv::Step;
use mlx_rs::Array;
use std::rc::Rc;

/// Of one step.
#[derive(Debug)]
pub struct Rows {
    /// Where each token's K and V go.
    pub(super) slots: Written,
    pub(super) decode: Decode,
    pub(super) chunks: Vec<ChunkRows>,
}

/// How K and V get into the pools.
#[derive(Debug)]
pub(super) enum Written {
    /// By MLX's scatter, which gives a new array.
    Scattered(Array),
    /// By a kernel.
    InPlace(Slots),
}

/// How decode rows read their keys.
#[derive(Debug)]
pub(super) enum Decode {
    Gathered(Vec<Group>),
    /// All of them at once, from the pool.
    Paged {
        paged: Rc<Paged>,
        batch: Batch,
    },
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) at: DecodeGroup,
    pub(super) keys: Array,
    /// True where a key counts, `[rows, 1, 1, longest]`; None when all rows are of one length.
    pub(super) mask: Option<Array>,
}

#[derive(Debug)]
pub(super) struct ChunkRows {
    pub(super) at: Chunk,
    pub(super) keys: Array,
}

pub(super) fn indices(v: &[u32], shape: &[i32]) -> Array {
    Array::from_slice(v, shape)
}

impl Rows {
    /// Of a step laid out as `p`, for a pool's way of reading.
    pub fn new(step: &Step, p: &Packing, pool: &Pool) -> Res<Rows> {
        let decode = match &pool.paged {
            Some(paged) if p.decode > 0 => {
                let t = packing::tables(step, p);
                Decode::Paged { batch: paged.batch(&t.lengths, &t.blocks, &windows(&pool.shape), None)?, paged: paged.clone() }
            }
            _ => Decode::Gathered(packing::groups(step, p).into_iter().map(group).collect()),
        };
        let chunk = |c: &Chunk| ChunkRows { keys: indices(&c.slots, &[c.slots.len() as i32]), at: c.clone() };
        let slots = match &pool.paged {
            Some(paged) => Written::InPlace(paged.slots(&p.slots)?),
            None => Written::Scattered(indices(&p.slots, &[p.slots.len() as i32])),
        };
        Ok(Rows { slots, decode, chunks: p.chunks.iter().map(chunk).collect() })
    }
}

fn group(g: DecodeGroup) -> Group {
    let (rows, width) = (g.lengths.len() as i32, g.lengths[0]);
    let ragged = g.lengths.iter().any(|l| *l != width);
    let mask = ragged.then(|| {
        let cells: Vec<bool> = g.lengths.iter().flat_map(|l| (0..width).map(move |k| k < *l)).collect();
        Array::from_slice(&cells, &[rows, 1, 1, width as i32])
    });
    Group { keys: indices(&g.slots, &[g.slots.len() as i32]), mask, at: g }
}

/// A layer's window as the kernel takes it: one that no position reaches is none.
pub(super) fn window(of_layer: Option<usize>) -> Option<u32> {
    of_layer.and_then(|w| i32::try_from(w).ok()).map(|w| w as u32)
}

/// Those of all layers, each once.
fn windows(shape: &Shape) -> Vec<Option<u32>> {
    let mut each: Vec<Option<u32>> = shape.windows.iter().map(|w| window(*w)).collect();
    each.sort_unstable();
    each.dedup();
    each
}
