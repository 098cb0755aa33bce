//! Attention over keys that are gathered from the pool: every chunk of a prompt, and decode rows where no kernel reads the pool.

use super::Pool;
use super::chunk::ChunkRows;
use super::rows::{Group, window_mask};
use crate::mlx::{Place, Res};
use mlx_rs::fast::{ScaledDotProductAttentionMask as Mask, scaled_dot_product_attention};
use mlx_rs::ops::indexing::{IndexOp, take_axis};
use mlx_rs::{Array, Dtype, ops};

impl Pool {
    /// Keys `[rows, kv_heads, L, head_dim]` of gathered slots.
    fn gather(&self, pool: &Array, slots: &Array, rows: i32) -> Res<Array> {
        let length = slots.dim(0) / rows;
        take_axis(pool, slots, 0)?.reshape(&[rows, length, self.shape.kv_heads, self.shape.head_dim])?.transpose_axes(&[0, 2, 1, 3])
    }

    /// One token a row.
    pub(super) fn decode(&self, layer: usize, q: &Array, g: &Group, window: Option<usize>) -> Res<Array> {
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
    /// that whatever a step writes is needed by what it returns, and is evaluated with it. Where a kernel writes, the slots are made
    /// to depend on it by adding the zero that it gives.
    pub(super) fn chunk(&self, layer: usize, q: &Array, c: &ChunkRows, window: Option<usize>) -> Res<Array> {
        let s = &self.shape;
        let queries = c.queries.dim(0);
        let q = take_axis(q, &c.queries, 0)?.reshape(&[1, queries, s.heads, s.head_dim])?.transpose_axes(&[0, 2, 1, 3])?;
        let after = if self.paged.is_some() { Some(ops::add(&c.keys, &self.written[layer])?) } else { None };
        let keys = after.as_ref().unwrap_or(&c.keys);
        let (k, v) = (self.gather(&self.k[layer], keys, 1)?, self.gather(&self.v[layer], keys, 1)?);
        let out = scaled_dot_product_attention(&q, &k, &v, self.scale(), Some(c.mask(window)), None)?;
        let out = out.transpose_axes(&[0, 2, 1, 3])?.reshape(&[queries, s.heads * s.head_dim])?;
        let count = c.at.count as i32;
        Ok(if queries > count { out.index(..count) } else { out })
    }
}

pub(super) fn own_head(kv_heads: i32, dtype: Dtype) -> Res<Array> {
    ops::eye::<f32>(kv_heads, None, None)?.reshape(&[1, kv_heads, 1, kv_heads, 1])?.as_dtype(dtype)
}
