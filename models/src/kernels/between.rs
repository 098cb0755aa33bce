//! What stands between the matrix products of a layer, each in one launch: SwiGLU, and the residual sum with the norm that follows it.

use super::raw::{Config, Grid, Kernel};
use super::source::Kind;
use crate::mlx::Res;
use mlx_rs::{Array, Dtype};

/// `[tokens, 2 * inner]`, gates before ups → `[tokens, inner]`: silu(gate) * up, in f32 and rounded once.
#[derive(Debug)]
pub struct Swiglu {
    inner: i32,
    dtype: Dtype,
    kernel: Kernel,
}

/// The sum of two `[tokens, hidden]`, and its RMS norm.
#[derive(Debug)]
pub struct AddNorm {
    hidden: i32,
    eps: f32,
    dtype: Dtype,
    kernel: Kernel,
}

/// A kernel's launch for passes of one number of tokens: made once a step, used by every layer.
#[derive(Debug)]
pub struct Launch {
    tokens: i32,
    config: Config,
}

/// Elements that a thread of SwiGLU takes, and warps of its threadgroups.
const EACH: i32 = 2;
const SWIGLU_WARPS: i32 = 8;

/// Elements that a thread of the norm holds, where the row is not too long for that.
const HELD: i32 = 4;
const HIDDEN_MAX: i32 = 16 * 1024;

impl Swiglu {
    pub fn new(inner: i32, dtype: Dtype) -> Result<Swiglu, String> {
        let kernel = Kernel::new(Kind::Swiglu).map_err(|e| e.what().to_owned())?;
        Ok(Swiglu { inner, dtype, kernel })
    }

    pub fn launch(&self, tokens: i32) -> Res<Launch> {
        let group = SWIGLU_WARPS * 32;
        let across = (self.inner + group * EACH - 1) / (group * EACH);
        let grid = Grid { threads: [across * group, tokens, 1], group };
        let constants = [(c"INNER", self.inner), (c"EACH", EACH), (c"WARPS", SWIGLU_WARPS)];
        let config = Config::new(grid, &[(&[tokens, self.inner], self.dtype)], self.dtype, &constants)?;
        Ok(Launch { tokens, config })
    }

    /// Whether this is for such an array.
    pub fn takes(&self, both: &Array) -> bool {
        both.dtype() == self.dtype && both.ndim() == 2 && both.dim(1) == 2 * self.inner
    }

    /// `both` is one that this takes, of as many tokens as the launch.
    pub fn apply(&self, both: &Array, launch: &Launch) -> Res<Array> {
        assert!(self.takes(both) && both.dim(0) == launch.tokens, "gates and ups of another step or model");
        // SAFETY: type and shape are asserted, and MLX makes the input contiguous.
        Ok(unsafe { self.kernel.apply(&[both], &launch.config)? }.remove(0))
    }
}

impl AddNorm {
    pub fn new(hidden: i32, eps: f32, dtype: Dtype) -> Result<AddNorm, String> {
        if hidden > HIDDEN_MAX {
            return Err(format!("no kernel for a hidden size of {hidden}: up to {HIDDEN_MAX} is possible"));
        }
        let kernel = Kernel::new(Kind::AddNorm).map_err(|e| e.what().to_owned())?;
        Ok(AddNorm { hidden, eps, dtype, kernel })
    }

    pub fn launch(&self, tokens: i32) -> Res<Launch> {
        let warps = ((self.hidden + 32 * HELD - 1) / (32 * HELD)).min(32);
        let grid = Grid { threads: [warps * 32, tokens, 1], group: warps * 32 };
        let constants = [(c"N", self.hidden), (c"WARPS", warps), (c"EPS", self.eps.to_bits() as i32)];
        let out = [tokens, self.hidden];
        let config = Config::new(grid, &[(&out, self.dtype), (&out, self.dtype)], self.dtype, &constants)?;
        Ok(Launch { tokens, config })
    }

    /// Whether this is for such arrays.
    pub fn takes(&self, x: &Array, y: &Array, weight: &Array) -> bool {
        let mine = |a: &Array| a.dtype() == self.dtype && a.dim(-1) == self.hidden;
        mine(x) && mine(y) && mine(weight) && x.ndim() == 2 && x.shape() == y.shape()
    }

    /// (x + y, its norm). The arrays are ones that this takes, of as many tokens as the launch.
    pub fn apply(&self, x: &Array, y: &Array, weight: &Array, launch: &Launch) -> Res<(Array, Array)> {
        assert!(self.takes(x, y, weight) && x.dim(0) == launch.tokens, "a sum of another step or model");
        // SAFETY: as for SwiGLU.
        let mut out = unsafe { self.kernel.apply(&[x, y, weight], &launch.config)? };
        let normed = out.remove(1);
        Ok((out.remove(0), normed))
    }
}

/// Those of the two that were proven for a model.
#[derive(Debug, Default)]
pub struct Between {
    pub swiglu: Option<Swiglu>,
    pub add_norm: Option<AddNorm>,
}

/// Launches of both for one step.
#[derive(Debug)]
pub struct Launches {
    swiglu: Option<Launch>,
    add_norm: Option<Launch>,
}

impl Between {
    pub fn launches(&self, tokens: i32) -> Res<Launches> {
        let swiglu = self.swiglu.as_ref().map(|k| k.launch(tokens)).transpose()?;
        Ok(Launches { swiglu, add_norm: self.add_norm.as_ref().map(|k| k.launch(tokens)).transpose()? })
    }

    /// None where MLX's own operations are to do it.
    pub fn swiglu(&self, both: &Array, launches: &Launches) -> Res<Option<Array>> {
        let at = self.swiglu.as_ref().zip(launches.swiglu.as_ref()).filter(|(k, _)| k.takes(both));
        at.map(|(k, launch)| k.apply(both, launch)).transpose()
    }

    /// None where MLX's own operations are to do it.
    pub fn add_norm(&self, x: &Array, y: &Array, weight: &Array, launches: &Launches) -> Res<Option<(Array, Array)>> {
        let at = self.add_norm.as_ref().zip(launches.add_norm.as_ref()).filter(|(k, _)| k.takes(x, y, weight));
        at.map(|(k, launch)| k.apply(x, y, weight, launch)).transpose()
    }
}
