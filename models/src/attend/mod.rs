//! The KV pool on the device, and the only place that knows rows: `attend`.
//!
//! A layer's K and V are each one array `[slots, kv_heads * head_dim]`, a slot being block × 32 + offset, allocated once.
//! On a GPU kernels write into it and read decode rows' keys where they lie. On the CPU writing is a scatter that MLX does in place,
//! because the pool's array is held here and nowhere else, and decode rows gather their keys (`gathered`), as chunks of prompts do
//! everywhere.

mod chunk;
mod gathered;
mod rows;

pub use rows::Rows;

use crate::kernels::{Paged, Slots};
use crate::mlx::{Place, Res};
use crate::rope::Angles;
use gathered::own_head;
use kv::BlockId;
use kv::step::BLOCK_TOKENS;
use mlx_rs::ops::indexing::{IndexOp, scatter_single, take_axis};
use mlx_rs::{Array, Dtype, ops};
use rows::{Decode, Written, indices};
use std::rc::Rc;

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
    /// Writes and reads the pools in place; None where it is not for this device or shape.
    paged: Option<Rc<Paged>>,
    /// Of each layer, what the kernel gave that wrote last.
    written: Vec<Array>,
    /// Of each layer, K and V as the kernels take them; empty where there are none.
    starts: Vec<(Array, Array)>,
    /// On the CPU: which K head a head reads, `[1, kv_heads, 1, kv_heads, 1]`, ones on the diagonal.
    own_head: Option<Array>,
}

/// K heads up to which decoding on the CPU multiplies all of them at once.
const HEADS_AT_ONCE: i32 = 4;

impl Pool {
    /// Zeroed pools for blocks `0..=blocks`; block 0 is never handed out and stays zero.
    pub fn new(shape: Shape, blocks: u32, dtype: Dtype, paged: Option<Rc<Paged>>) -> Res<Pool> {
        let slots = (blocks as i32 + 1) * BLOCK_TOKENS as i32;
        let one = || {
            let a = ops::zeros_dtype(&[slots, shape.kv_heads * shape.head_dim], dtype)?;
            a.eval()?;
            Ok(a)
        };
        let all = || (0..shape.windows.len()).map(|_| one()).collect::<Res<Vec<Array>>>();
        let at_once = shape.place == Place::Cpu && shape.kv_heads <= HEADS_AT_ONCE;
        let own_head = if at_once { Some(own_head(shape.kv_heads, dtype)?) } else { None };
        let written = shape.windows.iter().map(|_| Paged::first()).collect();
        let (k, v) = (all()?, all()?);
        let starts = match &paged {
            Some(paged) => k.iter().zip(&v).map(|(k, v)| Ok((paged.start(k)?, paged.start(v)?))).collect::<Res<_>>()?,
            None => Vec::new(),
        };
        Ok(Pool { k, v, paged, written, starts, own_head, shape })
    }

    /// Copies whole blocks in every layer: copy-on-write.
    pub fn copy_blocks(&mut self, copies: &[(BlockId, BlockId)]) -> Res<()> {
        if copies.is_empty() {
            return Ok(());
        }
        let slots = |pick: fn(&(BlockId, BlockId)) -> BlockId| {
            copies.iter().flat_map(|c| (0..BLOCK_TOKENS).map(move |o| pick(c).0 * BLOCK_TOKENS + o)).collect::<Vec<u32>>()
        };
        let (from, to) = (slots(|c| c.0), slots(|c| c.1));
        let from = indices(&from, &[from.len() as i32]);
        if let Some(paged) = self.paged.clone() {
            let to = paged.slots(&to, to.len())?;
            return (0..self.k.len()).try_for_each(|layer| self.copy_in_place(layer, &paged, &from, &to));
        }
        let to = indices(&to, &[to.len() as i32]);
        for pool in self.k.iter_mut().chain(&mut self.v) {
            let rows = take_axis(&*pool, &from, 0)?;
            write(pool, &to, &rows)?;
        }
        Ok(())
    }

    fn copy_in_place(&mut self, layer: usize, paged: &Paged, from: &Array, to: &Slots) -> Res<()> {
        let from = ops::add(from, &self.written[layer])?;
        let tokens = [from.dim(0), self.shape.kv_heads, self.shape.head_dim];
        let take = |pool: &Array| take_axis(pool, &from, 0)?.reshape(&tokens);
        let (k, v) = (take(&self.k[layer])?, take(&self.v[layer])?);
        self.written[layer] = paged.store(&k, &v, self.start(layer), to, &self.written[layer])?;
        Ok(())
    }

    /// Whether [`Pool::attend_to_product`] is for such a product.
    pub fn rotates(&self, qkv: &Array) -> bool {
        self.paged.as_ref().is_some_and(|p| p.takes(qkv))
    }

    /// The same as [`Pool::attend`], from the product `[T, (heads + 2 kv_heads) * head_dim]` that q, k and v are parts of: norms, rotation
    /// and writing are one launch. Only where [`Pool::rotates`] says so.
    pub fn attend_to_product(&mut self, layer: usize, qkv: &Array, angles: &Angles, norms: Option<(&Array, &Array)>, rows: &Rows) -> Res<Array> {
        let (Some(paged), Written::InPlace(slots)) = (&self.paged, &rows.slots) else { unreachable!("rows of a pool that has a kernel") };
        let (q, done) = paged.rotate(qkv, angles, norms, self.start(layer), slots, &self.written[layer])?;
        self.written[layer] = done;
        self.read(layer, &q, rows)
    }

    /// Writes this step's `k` and `v` `[T, kv_heads, head_dim]` of a layer, then attends: `q` `[T, heads, head_dim]` →
    /// `[T, heads * head_dim]`.
    pub fn attend(&mut self, layer: usize, q: &Array, k: &Array, v: &Array, rows: &Rows) -> Res<Array> {
        self.write(layer, k, v, rows)?;
        self.read(layer, q, rows)
    }

    fn read(&self, layer: usize, q: &Array, rows: &Rows) -> Res<Array> {
        let pad = q.dim(0) - rows.count;
        let window = self.shape.windows[layer];
        let mut out = Vec::new();
        match &rows.decode {
            Decode::Gathered(groups) => {
                for g in groups {
                    out.push(self.decode(layer, q, g, window)?);
                }
            }
            Decode::Paged { paged, batch } => {
                let part = (batch.rows() < q.dim(0)).then(|| q.index(..batch.rows()));
                let q = part.as_ref().unwrap_or(q);
                let all = paged.attend(q, self.start(layer), &self.written[layer], batch, rows::window(window))?;
                out.push(all.reshape(&[batch.rows(), self.shape.heads * self.shape.head_dim])?);
            }
        }
        for c in &rows.chunks {
            out.push(self.chunk(layer, q, c, window)?);
        }
        if pad > 0 {
            out.push(ops::zeros_dtype(&[pad, self.shape.heads * self.shape.head_dim], out[0].dtype())?);
        }
        if out.len() == 1 { Ok(out.remove(0)) } else { ops::concatenate(&out, 0) }
    }

    /// Tokens beyond those that are somebody's are written nowhere.
    fn write(&mut self, layer: usize, k: &Array, v: &Array, rows: &Rows) -> Res<()> {
        match (&rows.slots, &self.paged) {
            (Written::InPlace(slots), Some(paged)) => {
                self.written[layer] = paged.store(k, v, self.start(layer), slots, &self.written[layer])?;
            }
            (Written::Scattered(slots), _) => {
                let flat = [rows.count, self.shape.kv_heads * self.shape.head_dim];
                let mine = |a: &Array| if a.dim(0) > rows.count { a.index(..rows.count) } else { a.clone() };
                write(&mut self.k[layer], slots, &mine(k).reshape(&flat)?)?;
                write(&mut self.v[layer], slots, &mine(v).reshape(&flat)?)?;
            }
            (Written::InPlace(_), None) => unreachable!("rows of a pool that has a kernel"),
        }
        Ok(())
    }

    fn start(&self, layer: usize) -> (&Array, &Array) {
        (&self.starts[layer].0, &self.starts[layer].1)
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
