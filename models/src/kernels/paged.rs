//! A step's keys and values into the paged pools, and attention of its decode rows over them: one call each a layer.
//!
//! MLX's own scatter is in place only when nobody else holds the pool, and MLX itself holds whatever a launch reads until the device
//! is done with it: with two steps in flight, the second one's scatter would copy the pool. Here a pool is one array for ever, and
//! is written through. What orders launches is a small array that storing gives and that every later reader takes as an input.

use super::plan::{Plan, Spec, Tuning};
use super::raw::{Config, Grid, Kernel};
use super::rotate::{Rotate, Turning};
use super::source::Kind;
use crate::mlx::Res;
use crate::rope::Angles;
use kv::step::BLOCK_TOKENS;
use mlx_rs::error::Exception;
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype};
use std::iter::repeat_n;

/// The kernels for one shape of attention.
#[derive(Debug)]
pub struct Paged {
    spec: Spec,
    tuning: Tuning,
    whole: Kernel,
    part: Kernel,
    merge: Kernel,
    store: Kernel,
    /// Stores too, where it has been proven.
    rotate: Option<Rotate>,
}

/// Where a step's tokens go, made once a step.
#[derive(Debug)]
pub struct Slots {
    /// One a token; [`NOBODY`] for a token that is written nowhere.
    slots: Array,
    store: Config,
    rotate: Option<Config>,
}

/// The slot of tokens that only keep a pass's width.
const NOBODY: u32 = u32::MAX;

/// Warps of a threadgroup that stores.
const STORE_WARPS: i32 = 8;

/// A step's decode rows as the kernels want them, made once a step.
#[derive(Debug)]
pub struct Batch {
    rows: i32,
    /// Block numbers `[rows, width]`, padded with 0.
    table: Array,
    lengths: Array,
    launches: Vec<Launch>,
}

/// For all layers of one window.
#[derive(Debug)]
struct Launch {
    window: Option<u32>,
    /// chunk, window (0: none), splits, width of the table.
    params: Array,
    attend: Config,
    /// None where every row is read whole.
    merge: Option<Config>,
}

impl Batch {
    pub fn rows(&self) -> i32 {
        self.rows
    }
}

impl Paged {
    /// Nothing is compiled yet: that happens when the first outputs are evaluated.
    pub fn new(spec: Spec, tuning: Tuning) -> Res<Paged> {
        let shared = tuning.shared(&spec).map_err(Exception::custom)?;
        Ok(Paged {
            spec,
            tuning,
            whole: Kernel::sharing(Kind::Whole, shared)?,
            part: Kernel::sharing(Kind::Part, shared)?,
            merge: Kernel::new(Kind::Merge)?,
            store: Kernel::new(Kind::Store)?,
            rotate: None,
        })
    }

    /// The same with a kernel that rotates and stores at once; not proven yet.
    pub fn rotating(mut self, turning: Turning) -> Res<Paged> {
        self.rotate = Some(Rotate::new(self.spec, turning)?);
        Ok(self)
    }

    pub(super) fn tuning(&self) -> Tuning {
        self.tuning
    }

    /// What the first launch over a pool takes as the one before it.
    pub fn first() -> Array {
        Array::from_slice(&[0u32], &[1])
    }

    /// Slots that differ from each other, one a token of the first ones of a pass; the others of its `tokens` are nobody's.
    pub fn slots(&self, slots: &[u32], tokens: usize) -> Res<Slots> {
        let s = &self.spec;
        assert!(slots.len() <= tokens, "{} slots for {tokens} tokens", slots.len());
        let all: Vec<u32> = slots.iter().copied().chain(repeat_n(NOBODY, tokens - slots.len())).collect();
        let tokens = tokens as i32;
        let group = STORE_WARPS * 32;
        let across = (s.kv_heads * s.head_dim + group - 1) / group;
        let grid = Grid { threads: [across * group, tokens, 1], group };
        let constants = [(c"D", s.head_dim), (c"KV_HEADS", s.kv_heads), (c"WARPS", STORE_WARPS)];
        let store = Config::new(grid, &[(&[1], Dtype::Uint32)], s.dtype, &constants)?;
        let rotate = self.rotate.as_ref().map(|r| r.config(tokens)).transpose()?;
        Ok(Slots { slots: Array::from_slice(&all, &[tokens]), store, rotate })
    }

    /// Puts `k` and `v` `[tokens, kv_heads, head_dim]`, any strides, into the pools `[slots, kv_heads * head_dim]` (or their
    /// [`Paged::start`]), which are written in place. `before`: what the last call for these pools gave, or [`Paged::first`]. Gives `[1]`, a zero,
    /// which whatever reads the pools afterwards must depend on.
    pub fn store(&self, k: &Array, v: &Array, pools: (&Array, &Array), slots: &Slots, before: &Array) -> Res<Array> {
        let s = &self.spec;
        let shape = [slots.slots.dim(0), s.kv_heads, s.head_dim];
        assert!(k.shape() == shape && v.shape() == shape, "K and V of another step or model");
        self.check(pools.0);
        self.check(pools.1);
        let (k, v) = (k.as_dtype(s.dtype)?, v.as_dtype(s.dtype)?);
        // SAFETY: shapes are asserted; slots are the pool's and differ, by kv's invariants, so no two threads write one element. The pools
        // are inputs that are written, which MLX does not know of: `before` and the array given order everybody who reads or writes them.
        Ok(unsafe { self.store.apply(&[&k, &v, pools.0, pools.1, &slots.slots, before], &slots.store)? }.remove(0))
    }

    /// Whether there is [`Paged::rotate`].
    pub fn rotates(&self) -> bool {
        self.rotate.is_some()
    }

    /// Whether it is for such a projection: `[tokens, (heads + 2 kv_heads) * head_dim]`.
    pub fn takes(&self, qkv: &Array) -> bool {
        self.rotates() && qkv.dtype() == self.spec.dtype
    }

    /// Norms (with these weights, where the model has them) and rotates q and k of `qkv`, and puts k and v into the pools as
    /// [`Paged::store`] does: instead of it. Gives q `[tokens, heads, head_dim]`, and the zero.
    pub fn rotate(
        &self,
        qkv: &Array,
        angles: &Angles,
        norms: Option<(&Array, &Array)>,
        pools: (&Array, &Array),
        slots: &Slots,
        before: &Array,
    ) -> Res<(Array, Array)> {
        let (Some(rotate), Some(config)) = (&self.rotate, &slots.rotate) else { unreachable!("asked for where it does not rotate") };
        self.check(pools.0);
        self.check(pools.1);
        rotate.apply(qkv, angles, norms, [pools.0, pools.1, &slots.slots, before], config)
    }

    /// A pool as it is given to the kernels: its first slot, which begins where the pool does. MLX adds up the sizes of what a
    /// CUDA graph reads and launches the graph once that is large, which a pool would be by itself, at every launch that takes it.
    pub fn start(&self, pool: &Array) -> Res<Array> {
        self.check(pool);
        let start = pool.index(..1);
        start.eval()?;
        Ok(start)
    }

    fn check(&self, pool: &Array) {
        let s = &self.spec;
        assert!(pool.dim(1) == s.kv_heads * s.head_dim && pool.dtype() == s.dtype, "a pool of another model");
        assert!(pool.nbytes() / 16 <= u32::MAX as usize, "the kernel counts a pool's 16 bytes in 32 bits");
    }

    /// Lays decode rows out. `lengths`: keys of each row, its own token included; `table` `[rows, width]`; `windows`: those of the
    /// model's layers, each once; `splits`: as planned, unless said.
    pub fn batch(&self, lengths: &[u32], table: &[u32], windows: &[Option<u32>], splits: Option<u32>) -> Res<Batch> {
        let rows = lengths.len();
        assert!(rows > 0 && table.len().is_multiple_of(rows), "{} blocks in a table of {rows} rows", table.len());
        let width = table.len() / rows;
        let longest = lengths.iter().max().copied().unwrap_or(0);
        assert!(lengths.iter().all(|l| *l > 0) && longest <= width as u32 * BLOCK_TOKENS, "{longest} keys in {width} blocks");
        let launch = |window: &Option<u32>| {
            let each = (self.spec.kv_heads * self.tuning.parts) as u32;
            let plan = splits.map_or_else(|| Plan::of(lengths, *window, each), |s| Plan::with(lengths, *window, s));
            self.launch(rows as i32, width as u32, *window, plan)
        };
        Ok(Batch {
            rows: rows as i32,
            table: Array::from_slice(table, &[rows as i32, width as i32]),
            lengths: Array::from_slice(lengths, &[rows as i32]),
            launches: windows.iter().map(launch).collect::<Res<_>>()?,
        })
    }

    fn launch(&self, rows: i32, width: u32, window: Option<u32>, plan: Plan) -> Res<Launch> {
        let (s, t) = (&self.spec, &self.tuning);
        let splits = plan.splits as i32;
        let out = [rows, s.heads, s.head_dim];
        let threads = t.warps * 32;
        let grid = Grid { threads: [splits * threads, s.kv_heads * t.parts, rows], group: threads };
        let constants = [
            (c"D", s.head_dim),
            (c"HEADS", s.heads),
            (c"KV_HEADS", s.kv_heads),
            (c"PARTS", t.parts),
            (c"LANES", t.lanes),
            (c"DEEP", t.deep),
            (c"WARPS", t.warps),
            (c"AHEAD", t.ahead),
        ];
        let (attend, merge) = if splits == 1 {
            (Config::new(grid, &[(&out, s.dtype)], s.dtype, &constants)?, None)
        } else {
            let part = [rows, s.heads, splits, s.head_dim];
            let attend = Config::new(grid, &[(&part, Dtype::Float32), (&[rows, s.heads, splits, 2], Dtype::Float32)], s.dtype, &constants)?;
            let warps = (s.head_dim + 31) / 32;
            let grid = Grid { threads: [s.heads * warps * 32, rows, 1], group: warps * 32 };
            let merge = Config::new(grid, &[(&out, s.dtype)], s.dtype, &[(c"D", s.head_dim), (c"HEADS", s.heads), (c"WARPS", warps)])?;
            (attend, Some(merge))
        };
        let params = Array::from_slice(&[plan.chunk, window.unwrap_or(0), plan.splits, width], &[4]);
        Ok(Launch { window, params, attend, merge })
    }

    /// `q` `[rows, heads, head_dim]`, any strides, over the pools → `[rows, heads, head_dim]`. `after`: what storing into these pools
    /// gave; `window` is one of those that the batch was made for.
    pub fn attend(&self, q: &Array, pools: (&Array, &Array), after: &Array, batch: &Batch, window: Option<u32>) -> Res<Array> {
        let s = &self.spec;
        let launch = batch.launches.iter().find(|l| l.window == window).expect("the batch was made for every window of the model");
        assert_eq!(q.shape(), [batch.rows, s.heads, s.head_dim], "q of another batch or model");
        self.check(pools.0);
        self.check(pools.1);
        let q = q.as_dtype(s.dtype)?;
        let inputs = [&q, pools.0, pools.1, &batch.table, &batch.lengths, &launch.params, after];
        let Some(merge) = &launch.merge else {
            // SAFETY: shapes are asserted above and in `batch`; blocks of a table are the pool's, by kv's invariants.
            return Ok(unsafe { self.whole.apply(&inputs, &launch.attend)? }.remove(0));
        };
        // SAFETY: as above; the second kernel reads only what the first wrote of the parts.
        unsafe {
            let parts = self.part.apply(&inputs, &launch.attend)?;
            Ok(self.merge.apply(&[&parts[0], &parts[1], &batch.lengths, &launch.params], merge)?.remove(0))
        }
    }
}
