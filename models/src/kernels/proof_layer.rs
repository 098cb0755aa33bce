//! Holds the kernels of a layer that replace several of MLX's operations against those operations, as [`super::proof`] does attention.

use super::between::{AddNorm, Swiglu};
use super::paged::Paged;
use super::plan::Spec;
use super::proof::Random;
use super::rotate::Turning;
use crate::mlx::Res;
use crate::rope::Rope;
use mlx_rs::fast::rms_norm;
use mlx_rs::ops::indexing::{IndexOp, take_axis};
use mlx_rs::{Array, Dtype, ops};

/// Tokens tried: their slots, and a last one that is nobody's.
const SLOTS: [u32; 3] = [39, 0, 7];
const TOKENS: i32 = 4;

/// Slots of the pools that they are tried in.
const SLOT_COUNT: i32 = 40;

/// Of [`SLOTS`] and the last one.
const POSITIONS: [u32; 4] = [0, 1, 777, 3];

/// Numbers between -3 and 3.
pub(super) fn random(seed: u64, shape: &[i32], dtype: Dtype) -> Res<Array> {
    let mut random = Random(seed);
    let values: Vec<f32> = (0..shape.iter().product::<i32>()).map(|_| random.next()).collect();
    Array::from_slice(&values, shape).as_dtype(dtype)
}

/// A whole ulp of a type, relatively; for f32, a few, since sums and powers have their own order and rounding.
pub(super) fn ulp(dtype: Dtype) -> f32 {
    match dtype {
        Dtype::Bfloat16 => 2f32.powi(-7),
        Dtype::Float16 => 2f32.powi(-10),
        _ => 2f32.powi(-20),
    }
}

/// Largest error over `share` of each value wanted and `floor`.
fn error(got: &Array, want: &Array, share: f32, floor: f32) -> Res<f32> {
    let (got, want) = (got.as_dtype(Dtype::Float32)?.reshape(&[-1])?, want.as_dtype(Dtype::Float32)?.reshape(&[-1])?);
    got.eval()?;
    want.eval()?;
    assert_eq!(got.size(), want.size(), "an output of another shape");
    let each = got.as_slice::<f32>().iter().zip(want.as_slice::<f32>()).map(|(got, want)| (got - want).abs() / (share * want.abs() + floor));
    // NaN must not pass for a small error.
    Ok(each.fold(0f32, |worst, e| if e.is_nan() || worst.is_nan() { f32::NAN } else { worst.max(e) }))
}

pub(super) fn within(what: &str, verdict: Res<f32>) -> Result<f32, String> {
    match verdict {
        Ok(error) if error <= 1.0 => Ok(error),
        Ok(error) => Err(format!("{what} differs from MLX's by {error:.1} times what rounding explains")),
        Err(e) => Err(e.what().replace('\n', " ")),
    }
}

/// The kernels with one that rotates and stores at once, if that gives what MLX gives, and its largest error as a share of what
/// rounding explains; otherwise without it, and why.
pub(super) fn prove_rotation(paged: Paged, spec: &Spec, turning: Turning, rope: &Rope) -> (Paged, Result<f32, String>) {
    let verdict = Paged::new(*spec, paged.tuning()).and_then(|p| p.rotating(turning));
    let with = match verdict {
        Ok(with) => with,
        Err(e) => return (paged, Err(e.what().replace('\n', " "))),
    };
    match within("the kernel that rotates", rotation(&with, spec, turning, rope)) {
        Ok(error) => (with, Ok(error)),
        Err(why) => (paged, Err(why)),
    }
}

fn rotation(paged: &Paged, spec: &Spec, turning: Turning, rope: &Rope) -> Res<f32> {
    let case = Rotation::new(spec, turning)?;
    let zeros = || ops::zeros_dtype(&[SLOT_COUNT, spec.kv_heads * spec.head_dim], spec.dtype).and_then(|a| a.eval().map(|()| a));
    let pools = (zeros()?, zeros()?);
    let starts = (paged.start(&pools.0)?, paged.start(&pools.1)?);
    let at = paged.slots(&SLOTS, TOKENS as usize)?;
    let norms = turning.norm_eps.map(|_| (&case.q_norm, &case.k_norm));
    let (q, done) = paged.rotate(&case.qkv, &rope.angles(&POSITIONS), norms, (&starts.0, &starts.1), &at, &Paged::first())?;
    // Read as a chunk's keys are: through slots that depend on what was written.
    let after = ops::add(Array::from_slice(&(0..SLOT_COUNT as u32).collect::<Vec<u32>>(), &[SLOT_COUNT]), &done)?;
    let [want_q, want_k, want_v] = case.plain(spec, turning, rope)?;
    // Two sums of two products of values up to 3; where a norm stands before, what it rounds may go the other way in each.
    let share = ulp(spec.dtype);
    let floor = if turning.norm_eps.is_some() { 2.0 * share * 9.0 } else { 8.0 * 2f32.powi(-22) };
    let k = error(&take_axis(&pools.0, &after, 0)?, &want_k, share, floor)?;
    let v = error(&take_axis(&pools.1, &after, 0)?, &want_v, 0.0, f32::MIN_POSITIVE)?;
    let q = error(&q, &want_q, share, floor)?;
    Ok([k, v, q].into_iter().fold(0f32, |worst, e| if e.is_nan() || worst.is_nan() { f32::NAN } else { worst.max(e) }))
}

/// A pass of [`TOKENS`].
struct Rotation {
    qkv: Array,
    q_norm: Array,
    k_norm: Array,
}

impl Rotation {
    fn new(spec: &Spec, turning: Turning) -> Res<Rotation> {
        let d = spec.head_dim;
        let qkv = random(0x907a7e, &[TOKENS, (spec.heads + 2 * spec.kv_heads) * d], spec.dtype)?;
        let weight = |seed| if turning.norm_eps.is_some() { random(seed, &[d], spec.dtype) } else { ops::ones_dtype(&[d], spec.dtype) };
        Ok(Rotation { qkv, q_norm: weight(1)?, k_norm: weight(2)? })
    }

    /// q, and both pools afterwards, by MLX's own operations.
    fn plain(&self, spec: &Spec, turning: Turning, rope: &Rope) -> Res<[Array; 3]> {
        let (heads, kv, d) = (spec.heads, spec.kv_heads, spec.head_dim);
        let angles = rope.angles(&POSITIONS);
        let all = self.qkv.reshape(&[TOKENS, heads + 2 * kv, d])?;
        let normed = |x: Array, weight: &Array| turning.norm_eps.map_or_else(|| Ok(x.clone()), |eps| rms_norm(&x, Some(weight), eps));
        let q = angles.rotate(&normed(all.index((.., ..heads, ..)), &self.q_norm)?)?;
        let k = angles.rotate(&normed(all.index((.., heads..heads + kv, ..)), &self.k_norm)?)?;
        let v = all.index((.., heads + kv.., ..));
        // Which token stands in each slot; those of nobody hold zeros, which stand after the last token.
        let token = |slot: u32| SLOTS.iter().position(|s| *s == slot).map_or(TOKENS as u32, |t| t as u32);
        let from = Array::from_slice(&(0..SLOT_COUNT as u32).map(token).collect::<Vec<u32>>(), &[SLOT_COUNT]);
        let placed = |want: &Array| {
            let none = ops::zeros_dtype(&[1, kv * d], spec.dtype)?;
            take_axis(ops::concatenate(&[&want.reshape(&[TOKENS, kv * d])?, &none], 0)?, &from, 0)
        };
        Ok([q, placed(&k)?, placed(&v)?])
    }
}

/// The kernel for SwiGLU and its largest error, or why it is not to be used.
pub(super) fn prove_swiglu(inner: i32, dtype: Dtype) -> Result<(Swiglu, f32), String> {
    let kernel = Swiglu::new(inner, dtype).map_err(|e| e.replace('\n', " "))?;
    let trial = || {
        let (both, want) = plain_swiglu(inner, dtype)?;
        error(&kernel.apply(&both, &kernel.launch(TOKENS)?)?, &want, ulp(dtype) + 32.0 * 2f32.powi(-20), 1e-6)
    };
    within("the kernel for SwiGLU", trial()).map(|error| (kernel, error))
}

/// Gates from the flat ends of the function to its middle, with ups; and what becomes of them by MLX's own operations, in f32.
fn plain_swiglu(inner: i32, dtype: Dtype) -> Res<(Array, Array)> {
    let scale = Array::from_slice(&[1f32, 0.1, 10.0, 40.0], &[TOKENS, 1]);
    let both = random(3, &[TOKENS, 2 * inner], Dtype::Float32)?.multiply(scale)?.as_dtype(dtype)?;
    let wide = both.as_dtype(Dtype::Float32)?;
    let (gate, up) = (wide.index((.., ..inner)), wide.index((.., inner..)));
    let want = gate.multiply(ops::sigmoid(&gate)?)?.multiply(up)?;
    Ok((both, want))
}

/// The kernel for the sum and its norm, and its largest error, or why it is not to be used.
pub(super) fn prove_add_norm(hidden: i32, eps: f32, dtype: Dtype) -> Result<(AddNorm, f32), String> {
    let kernel = AddNorm::new(hidden, eps, dtype).map_err(|e| e.replace('\n', " "))?;
    let trial = || {
        let (x, y) = (random(4, &[TOKENS, hidden], dtype)?, random(5, &[TOKENS, hidden], dtype)?);
        let weight = random(6, &[hidden], dtype)?;
        let (sum, normed) = kernel.apply(&x, &y, &weight, &kernel.launch(TOKENS)?)?;
        let want = ops::add(&x, &y)?;
        let exact = error(&sum, &want, 0.0, f32::MIN_POSITIVE)?;
        // The normed value and its product with the weight are rounded one after the other.
        let normed = error(&normed, &rms_norm(&want, Some(&weight), eps)?, 2.0 * ulp(dtype), 1e-6)?;
        Ok(if exact > 0.0 || exact.is_nan() { f32::NAN } else { normed })
    };
    within("the kernel for sums and norms", trial()).map(|error| (kernel, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RopeConfig, Scaling};

    const SPEC: Spec = Spec { heads: 4, kv_heads: 2, head_dim: 16, dtype: Dtype::Float32 };

    fn rope(traditional: bool) -> Rope {
        Rope::new(&RopeConfig { theta: 10_000.0, traditional, scaling: Scaling::None }, SPEC.head_dim as usize)
    }

    fn values(a: &Array) -> Vec<f32> {
        a.eval().unwrap();
        a.as_slice::<f32>().to_vec()
    }

    #[test]
    fn the_plain_side_places_every_token_and_nothing_else() {
        let _turn = crate::mlx::turn();
        for traditional in [false, true] {
            let turning = Turning { traditional, norm_eps: None };
            let case = Rotation::new(&SPEC, turning).unwrap();
            let [q, k, v] = case.plain(&SPEC, turning, &rope(traditional)).unwrap().map(|a| values(&ops::add(&a, Array::from_f32(0.0)).unwrap()));
            let all = values(&case.qkv);
            // The first token is at position 0, where nothing turns, and goes to slot 39.
            assert_eq!(q[..64], all[..64]);
            assert_eq!((&k[39 * 32..], &v[39 * 32..]), (&all[64..96], &all[96..128]));
            // The third one turns by 777 positions, its v by none, and is in slot 7.
            let third = &all[2 * 128..3 * 128];
            assert_eq!(v[7 * 32..8 * 32], third[96..]);
            let (a, b) = if traditional { (third[64], third[65]) } else { (third[64], third[72]) };
            assert!((k[7 * 32] - (a * 777f32.cos() - b * 777f32.sin())).abs() < 1e-5);
            let filled = k.chunks_exact(32).filter(|slot| slot.iter().any(|x| *x != 0.0)).count();
            assert_eq!(filled, SLOTS.len(), "the last token is nobody's");
        }
    }

    #[test]
    fn the_plain_side_norms_before_it_turns() {
        let _turn = crate::mlx::turn();
        let turning = Turning { traditional: false, norm_eps: Some(1e-5) };
        let case = Rotation::new(&SPEC, turning).unwrap();
        let [q, _, _] = case.plain(&SPEC, turning, &rope(false)).unwrap();
        let (all, weight) = (values(&case.qkv), values(&case.q_norm));
        let scale = (all[..16].iter().map(|x| x * x).sum::<f32>() / 16.0 + 1e-5).sqrt().recip();
        for (i, got) in values(&q)[..16].iter().enumerate() {
            assert!((got - all[i] * scale * weight[i]).abs() < 1e-5, "element {i} is {got}");
        }
    }

    #[test]
    fn the_plain_side_of_swiglu_is_finite_and_gates() {
        let _turn = crate::mlx::turn();
        let (both, want) = plain_swiglu(8, Dtype::Float32).unwrap();
        let (both, want) = (values(&both), values(&want));
        for (i, got) in want.iter().enumerate() {
            let (gate, up) = (both[i / 8 * 16 + i % 8], both[i / 8 * 16 + 8 + i % 8]);
            assert!((got - gate / (1.0 + (-gate).exp()) * up).abs() <= 1e-5 * got.abs() + 1e-6, "{gate} and {up} give {got}");
        }
    }

    #[test]
    fn each_kernel_is_proven_where_there_is_a_gpu_and_refused_in_words_where_there_is_none() {
        let _turn = crate::mlx::turn();
        let verdicts = [prove_swiglu(40, Dtype::Float32).map(|(_, e)| e), prove_add_norm(64, 1e-5, Dtype::Float32).map(|(_, e)| e)];
        for verdict in verdicts {
            match (crate::mlx::gpu_available(), verdict) {
                (true, verdict) => assert!(verdict.unwrap() <= 1.0),
                (false, Ok(_)) => panic!("a kernel ran without a GPU"),
                (false, Err(why)) => assert!(!why.is_empty() && !why.contains('\n'), "{why}"),
            }
        }
    }

    #[test]
    fn what_is_not_a_number_is_no_small_error() {
        let _turn = crate::mlx::turn();
        let got = Array::from_slice(&[1f32, f32::NAN, 1.0], &[3]);
        let want = Array::from_slice(&[1f32, 1.0, 1.0], &[3]);
        assert!(within("it", error(&got, &want, 1.0, 1.0)).unwrap_err().starts_with("it differs"));
        assert_eq!(within("it", error(&want, &want, 1.0, 1.0)), Ok(0.0));
    }
}
