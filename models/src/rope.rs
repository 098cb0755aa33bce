//! Rotary position embedding over packed tokens: a position a token, the angles worked out once a step for all layers.
//!
//! The arithmetic follows mlx-lm's `rope_utils.py` and MLX's `fast::rope` in f32, so that angles have the oracle's own rounding.

use crate::config::{RopeConfig, Scaling};
use crate::mlx::Res;
use mlx_rs::ops::indexing::{Ellipsis, IndexOp};
use mlx_rs::{Array, ops};

/// A model's rotary constants.
#[derive(Debug, Clone)]
pub struct Rope {
    /// Radians a position, one for each pair of a head's elements.
    inverse: Vec<f32>,
    position_scale: f32,
    /// yarn's magnitude, on q and k alike.
    magnitude: f32,
    traditional: bool,
}

/// Cosines and sines of one step, each `[T, 1, head_dim / 2]` in f32.
#[derive(Debug)]
pub struct Angles {
    cos: Array,
    sin: Array,
    traditional: bool,
}

/// Whether every angle up to a position of `context` is a number that an f32 can hold.
pub fn fits(config: &RopeConfig, head_dim: usize, context: usize) -> bool {
    let r = Rope::new(config, head_dim);
    let angle = |f: &f32| context as f32 * r.position_scale * f;
    r.magnitude.is_normal() && r.inverse.iter().all(|f| f.is_normal() && *f > 0.0 && angle(f).is_finite())
}

impl Rope {
    pub fn new(config: &RopeConfig, head_dim: usize) -> Rope {
        let half = head_dim / 2;
        // Wavelengths over 2 pi, as mlx-lm's scaled variants begin with.
        let freqs: Vec<f32> = (0..half).map(|i| config.theta.powf(2.0 * i as f32 / head_dim as f32)).collect();
        let plain = (0..half).map(|i| (-(i as f32) * config.theta.ln() / half as f32).exp());
        let invert = |f: Vec<f32>| f.into_iter().map(|x| 1.0 / x).collect();
        let (inverse, position_scale, magnitude) = match &config.scaling {
            Scaling::None => (plain.collect(), 1.0, 1.0),
            Scaling::Linear { factor } => (plain.collect(), 1.0 / factor, 1.0),
            Scaling::Factors(each) => (invert(freqs.iter().zip(each).map(|(f, e)| f * e).collect()), 1.0, 1.0),
            Scaling::Llama3 { factor, low, high, original } => (invert(llama3(&freqs, *factor, *low, *high, *original)), 1.0, 1.0),
            Scaling::Yarn { factor, mscale, mscale_all_dim, .. } => {
                let m = |s: f32| if *factor <= 1.0 { 1.0 } else { 0.1 * s * factor.ln() + 1.0 };
                (invert(yarn(&freqs, config, head_dim)), 1.0, m(*mscale) / m(*mscale_all_dim))
            }
        };
        Rope { inverse, position_scale, magnitude, traditional: config.traditional }
    }

    /// Whether neighbours turn together, instead of the halves of a head.
    pub fn traditional(&self) -> bool {
        self.traditional
    }

    /// Angles for tokens at these positions.
    pub fn angles(&self, positions: &[u32]) -> Angles {
        let count = positions.len() * self.inverse.len();
        let (mut cos, mut sin) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for p in positions {
            let p = *p as f32 * self.position_scale;
            for f in &self.inverse {
                let (s, c) = (p * f).sin_cos();
                cos.push(c * self.magnitude);
                sin.push(s * self.magnitude);
            }
        }
        let shape = [positions.len() as i32, 1, self.inverse.len() as i32];
        let array = |v: &[f32]| Array::from_slice(v, &shape);
        Angles { cos: array(&cos), sin: array(&sin), traditional: self.traditional }
    }
}

impl Angles {
    /// Cosines and sines.
    pub fn arrays(&self) -> (&Array, &Array) {
        (&self.cos, &self.sin)
    }

    pub fn traditional(&self) -> bool {
        self.traditional
    }

    /// `x` `[T, heads, head_dim]`, rotated: in f32, and rounded once to the type of `x`, as MLX's rope.
    pub fn rotate(&self, x: &Array) -> Res<Array> {
        let (t, heads, dim) = (x.dim(0), x.dim(1), x.dim(2));
        let half = dim / 2;
        if self.traditional {
            let pairs = x.reshape(&[t, heads, half, 2])?;
            let (a, b) = self.turn(&pairs.index((Ellipsis, 0)), &pairs.index((Ellipsis, 1)))?;
            return ops::stack(&[a, b], -1)?.reshape(&[t, heads, dim])?.as_dtype(x.dtype());
        }
        let (a, b) = self.turn(&x.index((Ellipsis, ..half)), &x.index((Ellipsis, half..)))?;
        ops::concatenate(&[a, b], -1)?.as_dtype(x.dtype())
    }

    fn turn(&self, a: &Array, b: &Array) -> Res<(Array, Array)> {
        let (cos, sin) = (&self.cos, &self.sin);
        Ok((ops::subtract(a.multiply(cos)?, b.multiply(sin)?)?, ops::add(b.multiply(cos)?, a.multiply(sin)?)?))
    }
}

/// Llama 3's bands: long wavelengths are stretched, short ones kept, those between blended (mlx-lm `Llama3RoPE`).
fn llama3(freqs: &[f32], factor: f32, low: f32, high: f32, original: f32) -> Vec<f32> {
    let (low_wave, high_wave) = (original / low, original / high);
    let one = |f: &f32| {
        let wave = 2.0 * std::f32::consts::PI * f;
        if wave > low_wave {
            f * factor
        } else if wave > high_wave && wave < low_wave {
            let smooth = (original / wave - low) / (high - low);
            f / ((1.0 - smooth) / factor + smooth)
        } else {
            *f
        }
    };
    freqs.iter().map(one).collect()
}

/// YaRN's ramp between extrapolated and interpolated frequencies (Peng et al., 2023; mlx-lm `YarnRoPE`).
fn yarn(freqs: &[f32], config: &RopeConfig, head_dim: usize) -> Vec<f32> {
    let Scaling::Yarn { factor, original, beta_fast, beta_slow, .. } = config.scaling else { return freqs.to_vec() };
    let dims = head_dim as f64;
    let correction =
        |rotations: f32| dims * (f64::from(original) / (f64::from(rotations) * 2.0 * std::f64::consts::PI)).ln() / (2.0 * f64::from(config.theta).ln());
    let low = correction(beta_fast).floor().max(0.0) as f32;
    let mut high = correction(beta_slow).ceil().min(dims - 1.0) as f32;
    if low == high {
        high += 0.001;
    }
    let one = |(i, f): (usize, &f32)| {
        let mask = 1.0 - ((i as f32 - low) / (high - low)).clamp(0.0, 1.0);
        let inter = factor * f;
        (inter * f) / (inter * mask + f * (1.0 - mask))
    };
    freqs.iter().enumerate().map(one).collect()
}
