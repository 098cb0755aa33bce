//! From a layer's projection to what attention reads, in one launch instead of some ten: q and k rotated, k and v in the pools.

use super::plan::Spec;
use super::raw::{Config, Grid, Kernel};
use super::source::Kind;
use crate::mlx::Res;
use crate::rope::Angles;
use mlx_rs::{Array, Dtype};

/// Warps of a threadgroup, each with a head of its own.
const WARPS: i32 = 8;

/// What a model does to q and k before it attends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turning {
    /// Neighbours turn together, instead of the halves of a head.
    pub traditional: bool,
    /// Some: q and k are normed over head_dim first, with this epsilon.
    pub norm_eps: Option<f32>,
}

/// The kernel, for one model.
#[derive(Debug)]
pub(super) struct Rotate {
    spec: Spec,
    turning: Turning,
    kernel: Kernel,
}

impl Rotate {
    pub(super) fn new(spec: Spec, turning: Turning) -> Res<Rotate> {
        let kind = if turning.norm_eps.is_some() { Kind::NormRotate } else { Kind::Rotate };
        Ok(Rotate { spec, turning, kernel: Kernel::new(kind)? })
    }

    /// For passes of so many tokens.
    pub(super) fn config(&self, tokens: i32) -> Res<Config> {
        let s = &self.spec;
        let groups = (s.heads + 2 * s.kv_heads + WARPS - 1) / WARPS;
        let grid = Grid { threads: [groups * WARPS * 32, tokens, 1], group: WARPS * 32 };
        let mut constants =
            vec![(c"D", s.head_dim), (c"HEADS", s.heads), (c"KV_HEADS", s.kv_heads), (c"WARPS", WARPS), (c"PAIRED", self.turning.traditional.into())];
        constants.extend(self.turning.norm_eps.map(|eps| (c"EPS", eps.to_bits() as i32)));
        Config::new(grid, &[(&[tokens, s.heads, s.head_dim], s.dtype), (&[1], Dtype::Uint32)], s.dtype, &constants)
    }

    /// `after`: both pools, the slots, and what was given by the last launch that wrote into these pools. Gives q and the zero.
    pub(super) fn apply(&self, qkv: &Array, angles: &Angles, norms: Option<(&Array, &Array)>, after: [&Array; 4], config: &Config) -> Res<(Array, Array)> {
        let s = &self.spec;
        let tokens = after[2].dim(0);
        let wide = (s.heads + 2 * s.kv_heads) * s.head_dim;
        assert!(qkv.shape() == [tokens, wide] && qkv.dtype() == s.dtype, "a projection of another step or model");
        let (cos, sin) = angles.arrays();
        assert!(cos.size() == (tokens * s.head_dim / 2) as usize && angles.traditional() == self.turning.traditional, "angles of another step or model");
        assert_eq!(norms.is_some(), self.turning.norm_eps.is_some(), "norms of another model");
        let mut inputs = vec![qkv, cos, sin];
        inputs.extend(after);
        for weight in norms.iter().flat_map(|(q, k)| [*q, *k]) {
            assert!(weight.shape() == [s.head_dim] && weight.dtype() == s.dtype, "norms of another model");
            inputs.push(weight);
        }
        // SAFETY: shapes and types are asserted, and a product of matrices is contiguous; slots are the pool's or nobody's, and differ, by
        // kv's invariants. The pools are inputs that are written: the array given orders everybody who reads or writes them.
        let mut out = unsafe { self.kernel.apply(&inputs, config)? };
        let done = out.remove(1);
        Ok((out.remove(0), done))
    }
}
