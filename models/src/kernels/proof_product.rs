//! Holds the kernel for products against MLX's own, for each shape of matrix that a model has, and keeps those that hold.

use super::product::{Affine, Matrix, Product, ROWS_MAX, SERVES};
use super::proof::Random;
use super::proof_layer::{random, ulp, within};
use crate::mlx::Res;
use mlx_rs::error::Exception;
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::{Array, Dtype, ops};
use std::rc::Rc;

/// Numbers of rows tried beside the most: each number of tiles, full and not.
const ROWS: [i32; 5] = [2, 8, 13, 16, 29];

/// Outputs tried, beside those by which a matrix has more than a multiple of this: several turns of each of two threadgroups, of which the
/// last begins where that of the whole matrix does; nothing else follows from how many there are.
const OUTS: i32 = 336;

/// The kernels that serve, one for each shape of matrix.
#[derive(Debug, Default)]
pub struct Products(Vec<Rc<Product>>);

impl Products {
    /// Those that hold for these matrices, each tried once, and a line or several on what was found.
    pub(super) fn proven(matrices: &[Matrix]) -> (Products, Vec<String>) {
        let (mut kept, mut told, mut tried) = (Products::default(), Vec::new(), Vec::new());
        let mut worst: Option<f32> = None;
        if !SERVES {
            return (kept, vec!["products by MLX's operations".to_owned()]);
        }
        for matrix in matrices {
            if tried.contains(matrix) {
                continue;
            }
            tried.push(*matrix);
            match prove_product(*matrix) {
                Ok((product, error)) => {
                    kept.0.push(Rc::new(product));
                    worst = Some(worst.map_or(error, |w| w.max(error)));
                }
                Err(why) => told.push(format!("products with [{}, {}] by MLX's operations: {why}", matrix.outs, matrix.ins)),
            }
        }
        told.extend(worst.map(|w| format!("products of few rows in one kernel ({} of {} shapes): {w:.2}", kept.0.len(), tried.len())));
        (kept, told)
    }

    pub fn of(&self, matrix: &Matrix) -> Option<Rc<Product>> {
        self.0.iter().find(|p| p.matrix() == *matrix).cloned()
    }
}

/// The kernel for this matrix and its largest error as a share of what rounding explains, or why it is not to be used.
pub fn prove_product(matrix: Matrix) -> Result<(Product, f32), String> {
    let product = Product::new(matrix)?;
    within("the kernel for products", trial(&matrix)).map(|error| (product, error))
}

fn trial(matrix: &Matrix) -> Res<f32> {
    let tried = Matrix { outs: matrix.outs.min(OUTS + matrix.outs % OUTS), ..*matrix };
    let product = Product::part_of(*matrix, tried.outs).map_err(Exception::custom)?;
    let case = Case::new(&tried)?;
    let weights: Vec<&Array> = case.weights.iter().collect();
    let all = wide(&product.apply(&case.x, &weights)?)?;
    for rows in ROWS {
        // In other places than among all of them.
        let some = wide(&product.apply(&case.x.index((ROWS_MAX - rows.., ..)), &weights)?)?;
        let same = all[all.len() - some.len()..].iter().zip(&some).all(|(a, b)| a.to_bits() == b.to_bits());
        if !same {
            return Err(Exception::custom(format!("the bits of a row follow from its place, or from there being {rows}")));
        }
    }
    let (want, beside) = (wide(&case.product()?)?, wide(&case.magnitudes()?)?);
    let each = all.iter().zip(&want).zip(&beside).map(|((got, want), beside)| (got - want).abs() / case.tolerance(*want, *beside));
    // NaN must not pass for a small error.
    Ok(each.fold(0f32, |worst, e| if e.is_nan() || worst.is_nan() { f32::NAN } else { worst.max(e) }))
}

fn wide(a: &Array) -> Res<Vec<f32>> {
    let a = a.as_dtype(Dtype::Float32)?.reshape(&[-1])?;
    a.eval()?;
    Ok(a.as_slice::<f32>().to_vec())
}

/// Rows and a matrix, of numbers that do not repeat.
struct Case {
    matrix: Matrix,
    x: Array,
    /// The matrix, or its words, scales and biases.
    weights: Vec<Array>,
}

impl Case {
    fn new(m: &Matrix) -> Res<Case> {
        let x = random(0xa, &[ROWS_MAX, m.ins], m.dtype)?;
        let weights = match m.affine {
            None => vec![random(0xb, &[m.outs, m.ins], m.dtype)?],
            Some(Affine { bits, group }) => {
                let mut words = Random(0xc);
                let words: Vec<u32> = (0..m.outs * (m.ins * bits / 32)).map(|_| words.word()).collect();
                let side = |seed| random(seed, &[m.outs, m.ins / group], m.dtype);
                vec![Array::from_slice(&words, &[m.outs, m.ins * bits / 32]), side(0xd)?, side(0xe)?]
            }
        };
        Ok(Case { matrix: *m, x, weights })
    }

    /// By MLX's own operations.
    fn product(&self) -> Res<Array> {
        match (self.matrix.affine, &self.weights[..]) {
            (Some(Affine { bits, group }), [words, scales, biases]) => ops::quantized_matmul(&self.x, words, scales, biases, true, group, bits),
            _ => ops::matmul(&self.x, self.weights[0].t()),
        }
    }

    /// Sums of the sizes of what an output is the sum of, in f32.
    fn magnitudes(&self) -> Res<Array> {
        let size = |a: &Array| a.as_dtype(Dtype::Float32)?.abs();
        let weights = match (self.matrix.affine, &self.weights[..]) {
            (Some(Affine { bits, group }), [words, scales, biases]) => ops::dequantize(words, size(scales)?, &size(biases)?, group, bits)?,
            _ => size(&self.weights[0])?,
        };
        ops::matmul(size(&self.x)?, weights.t())
    }

    /// Both sides round the output once. Sums run in f32, each side's in its own order: 32 units in the last place of all terms
    /// together cover a walk of that many errors. MLX may round unpacked weights to the type, and does so with packed ones' products
    /// with the scale: errors of half an ulp each that walk, so that they grow with the root of their number; 8 covers 6 standard
    /// deviations.
    fn tolerance(&self, want: f32, beside: f32) -> f32 {
        let ulp = ulp(self.matrix.dtype);
        let unpacked = if self.matrix.affine.is_some() { 8.0 * ulp / 2.0 / (self.matrix.ins as f32).sqrt() } else { 0.0 };
        ulp * want.abs() + (32.0 * 2f32.powi(-24) + unpacked) * beside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [Option<Affine>; 3] = [None, Some(Affine { bits: 4, group: 64 }), Some(Affine { bits: 8, group: 32 })];

    fn matrix(affine: Option<Affine>, dtype: Dtype) -> Matrix {
        Matrix { outs: 40, ins: 128, dtype, affine }
    }

    #[test]
    fn the_plain_side_is_the_product_within_its_tolerance_which_a_missing_term_is_not() {
        let _turn = crate::mlx::turn();
        for affine in SHAPES {
            // MLX on a CPU adds packed weights up in their own type.
            let m = matrix(affine, Dtype::Float32);
            let case = Case::new(&m).unwrap();
            let x = wide(&case.x).unwrap();
            let (got, beside) = (wide(&case.product().unwrap()).unwrap(), wide(&case.magnitudes().unwrap()).unwrap());
            let sides: Vec<Vec<f32>> = case.weights.iter().skip(1).map(|a| wide(a).unwrap()).collect();
            let first = &case.weights[0];
            first.eval().unwrap();
            let dense = if affine.is_none() { wide(first).unwrap() } else { Vec::new() };
            let weight = |out: usize, k: usize| -> f64 {
                let at = out * 128 + k;
                let Some(Affine { bits, group }) = affine else { return dense[at].into() };
                let (bits, group) = (bits as usize, group as usize);
                let q = first.as_slice::<u32>()[at * bits / 32] >> (at * bits % 32) & ((1 << bits) - 1);
                f64::from(q) * f64::from(sides[0][at / group]) + f64::from(sides[1][at / group])
            };
            let mut noticed = 0;
            for (i, (got, beside)) in got.iter().zip(&beside).enumerate() {
                let (row, out) = (i / 40, i % 40);
                let terms: Vec<f64> = (0..128).map(|k| f64::from(x[row * 128 + k]) * weight(out, k)).collect();
                let want: f64 = terms.iter().sum();
                let tolerance = f64::from(case.tolerance(want as f32, *beside));
                assert!((f64::from(*got) - want).abs() <= tolerance, "{affine:?}: output {i} is {got}, not {want}");
                noticed += usize::from(terms[i % 128].abs() > tolerance);
            }
            assert!(noticed > 640, "{affine:?}: only {noticed} of 1280 missing terms would be noticed");
        }
    }

    #[test]
    fn products_are_proven_where_there_is_a_gpu_and_refused_in_words_where_there_is_none() {
        let _turn = crate::mlx::turn();
        let matrices = SHAPES.map(|affine| matrix(affine, Dtype::Float16));
        let (kept, told) = Products::proven(&[&matrices[..], &matrices[..1]].concat());
        let serve = matrices.iter().filter(|m| kept.of(m).is_some()).count();
        assert_eq!(serve, if crate::mlx::gpu_available() && SERVES { 3 } else { 0 }, "{told:?}");
        // Each shape once, and one line on those that serve.
        assert_eq!(told.len(), if SERVES && serve == 0 { 3 } else { 1 }, "{told:?}");
        assert!(told.iter().all(|t| !t.contains('\n')), "{told:?}");
        assert!(kept.of(&Matrix { outs: 41, ..matrices[0] }).is_none());
    }
}
