//! Activation functions. Not mlx-rs's own: those are compiled, and on the CPU MLX compiles by calling the system's C++ compiler.

use crate::mlx::{Place, Res};
use mlx_rs::{Array, ops};

/// `x * sigmoid(x)`.
pub(super) fn silu(x: &Array, place: Place) -> Res<Array> {
    match place {
        Place::Gpu => x.multiply(ops::sigmoid(x)?),
        // The same as x / (1 + e^-x). MLX's exponential on the CPU is three times slower than its power (of e^-1, whose rounding
        // to f32 costs x * 2^-25 of the result, relatively).
        Place::Cpu => {
            let one = Array::from_f32(1.0).as_dtype(x.dtype())?;
            let base = Array::from_f32((-1.0f32).exp()).as_dtype(x.dtype())?;
            x.divide(ops::add(ops::power(&base, x)?, &one)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_function() {
        let _turn = crate::mlx::turn();
        let x: Vec<f32> = (-400..=400).map(|i| i as f32 / 4.0).collect();
        let array = Array::from_slice(&x, &[x.len() as i32]);
        for place in [Place::Cpu, Place::Gpu] {
            let got = silu(&array, place).unwrap();
            for (x, got) in x.iter().zip(got.as_slice::<f32>()) {
                let want = f64::from(*x) / (1.0 + (-f64::from(*x)).exp());
                // Two roundings, and an ulp of x in the exponent (2^-23 of x, relatively); below x = -88 the power overflows, and what is lost is under 1e-36.
                let tolerance = want.abs() * (3e-7 + f64::from(x.abs()) * 1.2e-7) + 1e-36;
                assert!((f64::from(*got) - want).abs() <= tolerance, "{place:?}: silu({x}) is {got}, not {want}");
            }
        }
    }
}
