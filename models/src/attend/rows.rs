//! A step's rows as attention reads them: index arrays, made once a step and used by every layer.

use super::chunk::ChunkRows;
use super::{Pool, Shape};
use crate::kernels::{Batch, Paged, Slots};
use crate::mlx::Res;
use crate::packing::{self, DecodeGroup, Packing};
use kv::Step;
use mlx_rs::Array;
use std::rc::Rc;

/// Of one step.
#[derive(Debug)]
pub struct Rows {
    /// Tokens that are somebody's; those after them only keep the pass's width.
    pub(super) count: i32,
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
    /// True where a key counts, `[rows, 1, 1, width]`; None when all of them do.
    pub(super) mask: Option<Array>,
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
                // Where a pass keeps its shape, a row's keys are not divided: how they would be depends on all rows.
                let splits = p.width.map(|_| 1);
                Decode::Paged { batch: paged.batch(&t.lengths, &t.blocks, &windows(&pool.shape), splits)?, paged: paged.clone() }
            }
            _ => Decode::Gathered(packing::groups(step, p).into_iter().map(|g| group(g, p.width.is_some())).collect()),
        };
        let chunks = p.chunks.iter().map(|c| ChunkRows::new(c, &pool.shape, pool.k[0].dtype())).collect::<Res<_>>()?;
        let slots = match &pool.paged {
            Some(paged) => Written::InPlace(paged.slots(&p.slots, p.width.map_or(p.slots.len(), |w| w as usize))?),
            None => Written::Scattered(indices(&p.slots, &[p.slots.len() as i32])),
        };
        Ok(Rows { count: p.slots.len() as i32, slots, decode, chunks })
    }
}

/// `masked`: with a mask also where all keys count, so that it does the same whoever is in it.
fn group(g: DecodeGroup, masked: bool) -> Group {
    let mask = (masked || g.lengths.iter().any(|l| *l != g.width)).then(|| window_mask(&g, usize::MAX));
    Group { keys: indices(&g.slots, &[g.slots.len() as i32]), mask, at: g }
}

/// A query at position p sees keys above p - window (mlx-lm `create_causal_mask`) and none after p.
pub(super) fn window_mask(g: &DecodeGroup, window: usize) -> Array {
    let cells: Vec<bool> = g.lengths.iter().flat_map(|l| (0..g.width).map(move |k| k < *l && (k as usize).saturating_add(window) >= *l as usize)).collect();
    Array::from_slice(&cells, &[g.lengths.len() as i32, 1, 1, g.width as i32])
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
