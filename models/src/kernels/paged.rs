//! A step's keys and values into the paged pools, and attention of its decode rows over them: one call each a layer.
//!
//! MLX's own scatter is in place only when nobody else holds the pool, and MLX itself holds whatever a launch reads until the device
//! is done with it: with two steps in flight, the second one's scatter would copy the pool. Here a pool is one array for ever, and
//! is written through. What orders launches is a small array that storing gives and that every later reader takes as an input.

use super::plan::{Plan, Spec, Tuning};
use super::raw::{Config, Grid, Kernel};
use super::source::Kind;
use crate::mlx::Res;
use kv::step::BLOCK_TOKENS;
use mlx_rs::{Array, Dtype};

/// The kernels for one shape of attention.
#[derive(Debug)]
pub struct Paged {
    spec: Spec,
    tuning: Tuning,
    whole: Kernel,
    part: Kernel,
    merge: Kernel,
    store: Kernel,
}

/// Where a step's tokens go, made once a step.
#[derive(Debug)]
pub struct Slots {
    slots: Array,
    config: Config,
}

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
        Ok(Paged {
            spec,
            tuning,
            whole: Kernel::new(Kind::Whole)?,
            part: Kernel::new(Kind::Part)?,
            merge: Kernel::new(Kind::Merge)?,
            store: Kernel::new(Kind::Store)?,
        })
    }

    /// What the first launch over a pool takes as the one before it.
    pub fn first() -> Array {
        Array::from_slice(&[0u32], &[1])
    }

    /// Slots that differ from each other, one a token.
    pub fn slots(&self, slots: &[u32]) -> Res<Slots> {
        let (s, tokens) = (&self.spec, slots.len() as i32);
        let group = STORE_WARPS * 32;
        let across = (s.kv_heads * s.head_dim + group - 1) / group;
        let grid = Grid { threads: [across * group, tokens, 1], group };
        let constants = [(c"D", s.head_dim), (c"KV_HEADS", s.kv_heads), (c"WARPS", STORE_WARPS)];
        Ok(Slots { slots: Array::from_slice(slots, &[tokens]), config: Config::new(grid, &[(&[1], Dtype::Uint32)], s.dtype, &constants)? })
    }

    /// Puts `k` and `v` `[tokens, kv_heads, head_dim]`, any strides, into the pools `[slots, kv_heads * head_dim]`, which are written in
    /// place: nobody else may hold them. `before`: what the last call for these pools gave, or [`Paged::first`]. Gives `[1]`, a zero,
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
        Ok(unsafe { self.store.apply(&[&k, &v, pools.0, pools.1, &slots.slots, before], &slots.config)? }.remove(0))
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
