//! Holds the kernels against MLX's own operations, on the device and for the shape at hand, before anything relies on them.

use super::paged::Paged;
use super::plan::{Spec, Tuning};
use crate::mlx::Res;
use kv::step::BLOCK_TOKENS;
use mlx_rs::fast::scaled_dot_product_attention;
use mlx_rs::ops::indexing::{IndexOp, take_axis};
use mlx_rs::{Array, Dtype, ops};

/// Kernels that gave what MLX gives.
#[derive(Debug)]
pub struct Proof {
    pub paged: Paged,
    /// Largest error, as a share of what rounding explains.
    pub error: f32,
}

/// Keys of the rows tried: one key, a block and some, and enough for several splits with an end inside a block.
const LENGTHS: [u32; 4] = [1, 40, 333, 64];

/// A window that cuts the longer rows, inside a block.
const WINDOW: u32 = 45;

/// Whole rows, and rows in parts of which the short ones have fewer.
const SPLITS: [u32; 2] = [1, 4];

/// The kernels for this shape, or in one line why they are not to be used.
pub fn prove(spec: Spec, tuning: Tuning) -> Result<Proof, String> {
    spec.check()?;
    let paged = Paged::new(spec, tuning).map_err(|e| e.what().to_owned())?;
    stores(&paged, &spec)
        .map_err(|e| e.what().replace('\n', " "))?
        .then_some(())
        .ok_or_else(|| format!("the kernel that writes K and V does not ({spec:?})"))?;
    let mut worst = 0f32;
    for window in [None, Some(WINDOW)] {
        for splits in SPLITS {
            let error = trial(&paged, &spec, window, splits).map_err(|e| e.what().replace('\n', " "))?;
            // NaN must not pass for a small error.
            if error.is_nan() || error > 1.0 {
                return Err(format!(
                    "the kernel differs from MLX's attention by {error:.1} times what rounding explains ({spec:?}, window {window:?}, {splits} splits)"
                ));
            }
            worst = worst.max(error);
        }
    }
    Ok(Proof { paged, error: worst })
}

/// Largest error over what rounding explains.
fn trial(paged: &Paged, spec: &Spec, window: Option<u32>, splits: u32) -> Res<f32> {
    let case = Case::new(spec)?;
    let batch = paged.batch(&LENGTHS, &case.table, &[window], Some(splits))?;
    // Queries as a model has them: a view of a larger array.
    let (k, v) = (paged.start(&case.k)?, paged.start(&case.v)?);
    let got = paged.attend(&case.q.index((.., ..spec.heads, ..)), (&k, &v), &Paged::first(), &batch, window)?;
    let mut worst = 0f32;
    for (row, length) in LENGTHS.iter().enumerate() {
        let want = case.plain(spec, row, window.map_or(0, |w| length.saturating_sub(w))..*length)?;
        let got = got.index(row as i32).as_dtype(Dtype::Float32)?.reshape(&[-1])?;
        got.eval()?;
        want.eval()?;
        for (got, want) in got.as_slice::<f32>().iter().zip(want.as_slice::<f32>()) {
            let error = (got - want).abs() / tolerance(spec, *want);
            worst = if error.is_nan() { f32::NAN } else { worst.max(error) };
        }
    }
    Ok(worst)
}

/// Whether K and V of a step are where they belong and nowhere else, after two steps of which the second writes over the first.
fn stores(paged: &Paged, spec: &Spec) -> Res<bool> {
    // The fourth token of a pass is nobody's.
    let (tokens, slots, line) = (4, 40, spec.kv_heads * spec.head_dim);
    let zeros = || ops::zeros_dtype(&[slots, line], spec.dtype).and_then(|a| a.eval().map(|()| a));
    let pools = (zeros()?, zeros()?);
    // As a model has them, again: where they begin.
    let starts = (paged.start(&pools.0)?, paged.start(&pools.1)?);
    let mut random = Random(0x5707e);
    let mut written = Paged::first();
    let mut want = (vec![0f32; (slots * line) as usize], vec![0f32; (slots * line) as usize]);
    for at in [[39u32, 0, 7], [7, 33, 32]] {
        // As a model has them: views of one array, K before V.
        let both: Vec<f32> = (0..tokens * 2 * line).map(|_| (random.next() * 8.0).round()).collect();
        let array = Array::from_slice(&both, &[tokens, 2 * spec.kv_heads, spec.head_dim]).as_dtype(spec.dtype)?;
        let (k, v) = (array.index((.., ..spec.kv_heads, ..)), array.index((.., spec.kv_heads.., ..)));
        written = paged.store(&k, &v, (&starts.0, &starts.1), &paged.slots(&at, 4)?, &written)?;
        for (token, slot) in both.chunks_exact(2 * line as usize).zip(at) {
            let to = (slot as i32 * line) as usize..((slot as i32 + 1) * line) as usize;
            want.0[to.clone()].copy_from_slice(&token[..line as usize]);
            want.1[to].copy_from_slice(&token[line as usize..]);
        }
    }
    // Read as a chunk's keys are: through slots that depend on what was written.
    let all = ops::add(Array::from_slice(&(0..slots as u32).collect::<Vec<u32>>(), &[slots]), &written)?;
    let same = |pool: &Array, want: &[f32]| -> Res<bool> {
        let got = take_axis(pool, &all, 0)?.as_dtype(Dtype::Float32)?;
        got.eval()?;
        Ok(got.as_slice::<f32>() == want)
    };
    Ok(same(&pools.0, &want.0)? && same(&pools.1, &want.1)?)
}

/// The output is rounded once to its type (a whole ulp is allowed: both sides round scores alike only nearly). Sums run in f32 over
/// head_dim and over keys: their errors walk randomly, over values that are at most [`LARGEST`]; 32 covers the hardware's power of 2.
fn tolerance(spec: &Spec, want: f32) -> f32 {
    let ulp = match spec.dtype {
        Dtype::Bfloat16 => 2f32.powi(-7),
        Dtype::Float16 => 2f32.powi(-10),
        _ => 0.0,
    };
    let terms = (spec.head_dim as u32 + LENGTHS[2]) as f32;
    ulp * want.abs() + 32.0 * terms.sqrt() * 2f32.powi(-24) * LARGEST
}

/// Bound on what [`Random`] gives.
const LARGEST: f32 = 3.0;

/// Rows with their own blocks, out of order, in a pool whose other slots hold NaN: what a kernel must not read shows.
struct Case {
    /// `[rows, heads + 1, head_dim]`.
    q: Array,
    k: Array,
    v: Array,
    table: Vec<u32>,
}

impl Case {
    fn new(spec: &Spec) -> Res<Case> {
        let width = LENGTHS.iter().max().map_or(0, |l| l.div_ceil(BLOCK_TOKENS)) as usize;
        let mut table = vec![0; LENGTHS.len() * width];
        let blocks: u32 = LENGTHS.iter().map(|l| l.div_ceil(BLOCK_TOKENS)).sum();
        let line = (spec.kv_heads * spec.head_dim) as usize;
        let slots = (blocks as usize + 1) * BLOCK_TOKENS as usize;
        let mut random = Random(0x5eed);
        let (mut k, mut v) = (vec![f32::NAN; slots * line], vec![f32::NAN; slots * line]);
        let mut given = blocks;
        for (row, length) in LENGTHS.iter().enumerate() {
            for at in 0..*length {
                let cell = &mut table[row * width + (at / BLOCK_TOKENS) as usize];
                if at % BLOCK_TOKENS == 0 {
                    *cell = given;
                    given -= 1;
                }
                let slot = (*cell * BLOCK_TOKENS + at % BLOCK_TOKENS) as usize;
                k[slot * line..][..line].fill_with(|| random.next());
                v[slot * line..][..line].fill_with(|| random.next());
            }
        }
        let q: Vec<f32> = (0..LENGTHS.len() * ((spec.heads + 1) * spec.head_dim) as usize).map(|_| random.next()).collect();
        let array = |v: &[f32], shape: &[i32]| Array::from_slice(v, shape).as_dtype(spec.dtype);
        let pool = [slots as i32, line as i32];
        let case = Case { q: array(&q, &[LENGTHS.len() as i32, spec.heads + 1, spec.head_dim])?, k: array(&k, &pool)?, v: array(&v, &pool)?, table };
        Ok(case)
    }

    /// One row by MLX's own operations, in f32: `[heads * head_dim]`.
    fn plain(&self, spec: &Spec, row: usize, seen: std::ops::Range<u32>) -> Res<Array> {
        let width = self.table.len() / LENGTHS.len();
        let slots: Vec<u32> = seen.map(|p| self.table[row * width + (p / BLOCK_TOKENS) as usize] * BLOCK_TOKENS + p % BLOCK_TOKENS).collect();
        let slots = Array::from_slice(&slots, &[slots.len() as i32]);
        let keys = |pool: &Array| {
            let rows = take_axis(pool, &slots, 0)?.as_dtype(Dtype::Float32)?;
            rows.reshape(&[1, slots.dim(0), spec.kv_heads, spec.head_dim])?.transpose_axes(&[0, 2, 1, 3])
        };
        let q = self.q.index((row as i32, ..spec.heads, ..)).as_dtype(Dtype::Float32)?.reshape(&[1, spec.heads, 1, spec.head_dim])?;
        scaled_dot_product_attention(&q, &keys(&self.k)?, &keys(&self.v)?, (spec.head_dim as f32).powf(-0.5), None, None)?.reshape(&[-1])
    }
}

/// Numbers between -3 and 3, the same ones each time (xorshift64, sums of three).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> f32 {
        let mut one = || (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        one() + one() + one()
    }

    pub(super) fn word(&mut self) -> u32 {
        (self.bits() >> 32) as u32
    }

    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_proven_where_there_is_a_gpu_and_refused_in_words_where_there_is_none() {
        let _turn = crate::mlx::turn();
        let spec = Spec { heads: 8, kv_heads: 2, head_dim: 64, dtype: Dtype::Float32 };
        let verdict = prove(spec, Tuning::of(&spec).unwrap());
        match (crate::mlx::gpu_available(), verdict) {
            (true, verdict) => assert!(verdict.unwrap().error <= 1.0),
            (false, Ok(_)) => panic!("kernels ran without a GPU"),
            (false, Err(why)) => assert!(!why.is_empty() && !why.contains('\n'), "{why}"),
        }
        // The refusal has done no harm.
        assert_eq!(Array::from_slice(&[1f32, 2.0], &[2]).sum(false).unwrap().item_exact::<f32>(), 3.0);
    }

    #[test]
    fn the_plain_side_is_attention() {
        let _turn = crate::mlx::turn();
        let spec = Spec { heads: 4, kv_heads: 2, head_dim: 16, dtype: Dtype::Float32 };
        let case = Case::new(&spec).unwrap();
        // One key: its value, for every head that shares it.
        let one = case.plain(&spec, 0, 0..1).unwrap();
        let values = case.v.index((case.table[0] * BLOCK_TOKENS) as i32);
        one.eval().unwrap();
        values.eval().unwrap();
        let (got, want) = (one.as_slice::<f32>(), values.as_slice::<f32>());
        for head in 0..4 {
            assert_eq!(got[head * 16..][..16], want[head / 2 * 16..][..16]);
        }
        assert!(case.plain(&spec, 2, 288..333).unwrap().as_slice::<f32>().iter().all(|x| x.is_finite()), "a row's keys are all its own");
    }
}
