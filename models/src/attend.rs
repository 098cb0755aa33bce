//! The KV pool on the device, and the only place that knows rows: `attend`.
//!
//! A layer's K and V are each one array `[slots, kv_heads * head_dim]`, a slot being block × 32 + offset, allocated once.
//! Writing is a scatter that MLX does in place, because the pool's array is held here and nowhere else.

use crate::mlx::{Place, Res};
use crate::packing::{Chunk, DecodeGroup, Packing};
use kv::BlockId;
use kv::step::BLOCK_TOKENS;
use mlx_rs::fast::{ScaledDotProductAttentionMask as Mask, scaled_dot_product_attention};
use mlx_rs::ops::indexing::{IndexOp, scatter_single, take_axis};
use mlx_rs::{Array, Dtype, ops};

/// Sizes that attention needs of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    pub heads: i32,
    pub kv_heads: i32,
    pub head_dim: i32,
    /// A layer's window in tokens; one entry a layer.
    pub windows: Vec<Option<usize>>,
    pub place: Place,
}

/// K and V of every layer.
#[derive(Debug)]
pub struct Pool {
    shape: Shape,
    k: Vec<Array>,
    v: Vec<Array>,
    /// On the CPU: which K head a head reads, `[1, kv_heads, 1, kv_heads, 1]`, ones on the diagonal.
    own_head: Option<Array>,
}

/// K heads up to which decoding on the CPU multiplies all of them at once.
const HEADS_AT_ONCE: i32 = 4;

/// A step's index arrays, made once and used by every layer.
#[derive(Debug)]
pub struct Rows {
    /// Tokens that are somebody's; those after them only keep the pass's width.
    count: i32,
    slots: Array,
    groups: Vec<Group>,
    chunks: Vec<ChunkRows>,
}

#[derive(Debug)]
struct Group {
    at: DecodeGroup,
    keys: Array,
    /// True where a key counts, `[rows, 1, 1, width]`; None when all of them do.
    mask: Option<Array>,
}

#[derive(Debug)]
struct ChunkRows {
    at: Chunk,
    keys: Array,
}

fn indices(v: &[u32], shape: &[i32]) -> Array {
    Array::from_slice(v, shape)
}

impl Rows {
    pub fn new(p: &Packing) -> Rows {
        let group = |g: &DecodeGroup| {
            // A pass of fixed width always has one, so that it does the same whoever is in it.
            let mask = (p.width.is_some() || g.lengths.iter().any(|l| *l != g.width)).then(|| window_mask(g, usize::MAX));
            Group { keys: indices(&g.slots, &[g.slots.len() as i32]), mask, at: g.clone() }
        };
        let chunk = |c: &Chunk| ChunkRows { keys: indices(&c.slots, &[c.slots.len() as i32]), at: c.clone() };
        Rows {
            count: p.slots.len() as i32,
            slots: indices(&p.slots, &[p.slots.len() as i32]),
            groups: p.decode.iter().map(group).collect(),
            chunks: p.chunks.iter().map(chunk).collect(),
        }
    }
}

impl Pool {
    /// Zeroed pools for blocks `0..=blocks`; block 0 is never handed out and stays zero.
    pub fn new(shape: Shape, blocks: u32, dtype: Dtype) -> Res<Pool> {
        let slots = (blocks as i32 + 1) * BLOCK_TOKENS as i32;
        let one = || {
            let a = ops::zeros_dtype(&[slots, shape.kv_heads * shape.head_dim], dtype)?;
            a.eval()?;
            Ok(a)
        };
        let all = || (0..shape.windows.len()).map(|_| one()).collect::<Res<Vec<Array>>>();
        let at_once = shape.place == Place::Cpu && shape.kv_heads <= HEADS_AT_ONCE;
        let own_head = if at_once { Some(own_head(shape.kv_heads, dtype)?) } else { None };
        Ok(Pool { k: all()?, v: all()?, own_head, shape })
    }

    /// Copies whole blocks in every layer: copy-on-write.
    pub fn copy_blocks(&mut self, copies: &[(BlockId, BlockId)]) -> Res<()> {
        if copies.is_empty() {
            return Ok(());
        }
        let slots = |pick: fn(&(BlockId, BlockId)) -> BlockId| {
            let v: Vec<u32> = copies.iter().flat_map(|c| (0..BLOCK_TOKENS).map(move |o| pick(c).0 * BLOCK_TOKENS + o)).collect();
            indices(&v, &[v.len() as i32])
        };
        let (from, to) = (slots(|c| c.0), slots(|c| c.1));
        for pool in self.k.iter_mut().chain(&mut self.v) {
            let rows = take_axis(&*pool, &from, 0)?;
            write(pool, &to, &rows)?;
        }
        Ok(())
    }

    /// Writes this step's `k` and `v` `[T, kv_heads, head_dim]` of a layer, then attends: `q` `[T, heads, head_dim]` →
    /// `[T, heads * head_dim]`.
    pub fn attend(&mut self, layer: usize, q: &Array, k: &Array, v: &Array, rows: &Rows) -> Res<Array> {
        let (t, pad) = (rows.count, q.dim(0) - rows.count);
        let width = self.shape.kv_heads * self.shape.head_dim;
        let mine = |a: &Array| if pad > 0 { a.index(..t) } else { a.clone() };
        write(&mut self.k[layer], &rows.slots, &mine(k).reshape(&[t, width])?)?;
        write(&mut self.v[layer], &rows.slots, &mine(v).reshape(&[t, width])?)?;
        let window = self.shape.windows[layer];
        let mut out = Vec::with_capacity(rows.groups.len() + rows.chunks.len());
        for g in &rows.groups {
            out.push(self.decode(layer, q, g, window)?);
        }
        for c in &rows.chunks {
            out.push(self.chunk(layer, q, c, window)?);
        }
        if pad > 0 {
            out.push(ops::zeros_dtype(&[pad, self.shape.heads * self.shape.head_dim], out[0].dtype())?);
        }
        if out.len() == 1 { Ok(out.remove(0)) } else { ops::concatenate(&out, 0) }
    }

    /// Keys `[rows, kv_heads, L, head_dim]` of gathered slots.
    fn gather(&self, pool: &Array, slots: &Array, rows: i32) -> Res<Array> {
        let length = slots.dim(0) / rows;
        take_axis(pool, slots, 0)?.reshape(&[rows, length, self.shape.kv_heads, self.shape.head_dim])?.transpose_axes(&[0, 2, 1, 3])
    }

    /// One token a row.
    fn decode(&self, layer: usize, q: &Array, g: &Group, window: Option<usize>) -> Res<Array> {
        let (rows, first) = (g.at.lengths.len() as i32, g.at.first as i32);
        let q = q.index(first..first + rows);
        let windowed = window.filter(|w| g.at.width as usize > *w).map(|w| window_mask(&g.at, w));
        let mask = windowed.as_ref().or(g.mask.as_ref());
        match &self.own_head {
            Some(own) => self.decode_at_once(layer, &q, g, mask, own),
            None => self.decode_by_head(layer, &q, g, mask),
        }
    }

    /// Each K head by itself. On the CPU the heads that share one stand as its queries, so that it is one matrix product; on a GPU
    /// MLX has a kernel for one query a head, and plans anew for each new length where there are more.
    fn decode_by_head(&self, layer: usize, q: &Array, g: &Group, mask: Option<&Array>) -> Res<Array> {
        let s = &self.shape;
        let rows = q.dim(0);
        let k = self.gather(&self.k[layer], &g.keys, rows)?;
        let v = self.gather(&self.v[layer], &g.keys, rows)?;
        let q = match s.place {
            Place::Cpu => q.reshape(&[rows, s.kv_heads, s.heads / s.kv_heads, s.head_dim])?,
            Place::Gpu => q.reshape(&[rows, s.heads, 1, s.head_dim])?,
        };
        let out = scaled_dot_product_attention(&q, &k, &v, self.scale(), mask.map(Mask::Array), None)?;
        out.reshape(&[rows, s.heads * s.head_dim])
    }

    /// All K heads of a row in one matrix product: each query stands in its own head's columns, among zeros. The products with
    /// zeros cost less than the many small products and the copies into head order that they replace (on the CPU, few K heads).
    fn decode_at_once(&self, layer: usize, q: &Array, g: &Group, mask: Option<&Array>, own: &Array) -> Res<Array> {
        let s = &self.shape;
        let (rows, width, share) = (q.dim(0), s.kv_heads * s.head_dim, s.heads / s.kv_heads);
        let keys = |pool: &Array| take_axis(pool, &g.keys, 0)?.reshape(&[rows, g.at.width as i32, width]);
        let q = q.reshape(&[rows, s.kv_heads, share, 1, s.head_dim])?.multiply(Array::from_f32(self.scale()).as_dtype(q.dtype())?)?;
        let q = q.multiply(own)?.reshape(&[rows, s.heads, width])?;
        let mut scores = ops::matmul(&q, keys(&self.k[layer])?.transpose_axes(&[0, 2, 1])?)?;
        if let Some(mask) = mask {
            let never = Array::from_f32(f32::NEG_INFINITY).as_dtype(scores.dtype())?;
            scores = ops::select(mask.squeeze_axes(&[1])?, &scores, never)?;
        }
        let all = ops::matmul(ops::softmax_axis(&scores, -1, true)?, keys(&self.v[layer])?)?;
        let all = all.reshape(&[rows, s.kv_heads, share, s.kv_heads, s.head_dim])?;
        all.multiply(own)?.sum_axis(3, false)?.reshape(&[rows, s.heads * s.head_dim])
    }

    /// A row's chunk against its own prefix, causally. Its own keys are gathered too, even where nothing stands before them: so
    /// that whatever a step writes is needed by what it returns, and is evaluated with it.
    fn chunk(&self, layer: usize, q: &Array, c: &ChunkRows, window: Option<usize>) -> Res<Array> {
        let (first, count) = (c.at.first as i32, c.at.count as i32);
        let s = &self.shape;
        let q = q.index(first..first + count).reshape(&[1, count, s.heads, s.head_dim])?.transpose_axes(&[0, 2, 1, 3])?;
        let (k, v) = (self.gather(&self.k[layer], &c.keys, 1)?, self.gather(&self.v[layer], &c.keys, 1)?);
        let total = (c.at.start + c.at.count) as usize;
        let windowed = window.filter(|w| total > *w).map(|w| chunk_window_mask(c.at.start, c.at.count, w));
        let mask = windowed.as_ref().map_or(Mask::Causal, Mask::Array);
        let out = scaled_dot_product_attention(&q, &k, &v, self.scale(), Some(mask), None)?;
        out.transpose_axes(&[0, 2, 1, 3])?.reshape(&[count, s.heads * s.head_dim])
    }

    fn scale(&self) -> f32 {
        (self.shape.head_dim as f32).powf(-0.5)
    }
}

/// `pool[slots] = rows`, in place: the old array is given up before the new one is evaluated, and the pool is never among the
/// arrays that an evaluation is asked for, since MLX holds those until all of it is done and would copy them for the next step.
fn write(pool: &mut Array, slots: &Array, rows: &Array) -> Res<()> {
    let updates = rows.as_dtype(pool.dtype())?.expand_dims(1)?;
    *pool = scatter_single(&*pool, slots, &updates, 0)?;
    Ok(())
}

fn own_head(kv_heads: i32, dtype: Dtype) -> Res<Array> {
    ops::eye::<f32>(kv_heads, None, None)?.reshape(&[1, kv_heads, 1, kv_heads, 1])?.as_dtype(dtype)
}

/// A query at position p sees keys above p - window (mlx-lm `create_causal_mask`) and none after p.
fn window_mask(g: &DecodeGroup, window: usize) -> Array {
    let cells: Vec<bool> = g.lengths.iter().flat_map(|l| (0..g.width).map(move |k| k < *l && (k as usize).saturating_add(window) >= *l as usize)).collect();
    Array::from_slice(&cells, &[g.lengths.len() as i32, 1, 1, g.width as i32])
}

fn chunk_window_mask(start: u32, count: u32, window: usize) -> Array {
    let total = start + count;
    let cells: Vec<bool> = (start..total).flat_map(|p| (0..total).map(move |k| k <= p && (k as usize) + window > p as usize)).collect();
    Array::from_slice(&cells, &[1, 1, count as i32, total as i32])
}
