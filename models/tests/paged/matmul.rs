//! The kernel for products of few rows, against the product's definition in f64.

use crate::driver::{back, matmul, numbers, type_name, words};
use crate::naive::Random;
use mlx_rs::Dtype;
use models::kernels::{Affine, Dealing, Matrix};

/// One set of the kernel's constants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    matrix: Matrix,
    words: i32,
    tiles: i32,
    dealing: Dealing,
}

const fn case(dtype: Dtype, affine: Option<Affine>, words: i32, [outs, ins]: [i32; 2], [tiles, tall, deep, warps, groups]: [i32; 5]) -> Case {
    Case { matrix: Matrix { outs, ins, dtype, affine }, words, tiles, dealing: Dealing { tall, deep, warps, groups } }
}

const fn packed(bits: i32, group: i32) -> Option<Affine> {
    Some(Affine { bits, group })
}

/// Every number of tiles and way to pack that is served, and constants other than those; outputs that fill threadgroups and that do not,
/// in one turn and in several; steps that are fewer than warps, and that leave some warps with one less, at every place of a ring.
pub(crate) static MATMUL: [Case; 33] = [
    case(Dtype::Bfloat16, None, 4, [64, 32 * 71], [1, 2, 4, 8, 2]),
    case(Dtype::Bfloat16, None, 4, [40, 32 * 71], [2, 2, 4, 8, 1]),
    case(Dtype::Bfloat16, None, 4, [33, 32 * 71], [4, 2, 4, 8, 2]),
    case(Dtype::Float16, None, 4, [100, 32 * 25], [1, 2, 4, 8, 3]),
    case(Dtype::Float16, None, 4, [32, 32], [1, 2, 4, 8, 1]),
    case(Dtype::Bfloat16, None, 4, [150, 32 * 11], [1, 4, 3, 4, 1]),
    case(Dtype::Bfloat16, None, 4, [50, 32 * 9], [4, 1, 1, 2, 4]),
    case(Dtype::Bfloat16, None, 4, [40, 32 * 71], [1, 1, 4, 8, 2]),
    case(Dtype::Bfloat16, None, 4, [150, 32 * 25], [1, 3, 3, 8, 1]),
    case(Dtype::Bfloat16, None, 4, [250, 32 * 19], [4, 7, 2, 8, 2]),
    case(Dtype::Bfloat16, None, 4, [230, 32 * 17], [2, 7, 2, 8, 1]),
    case(Dtype::Bfloat16, packed(4, 64), 2, [120, 128 * 11], [1, 1, 2, 8, 4]),
    case(Dtype::Bfloat16, packed(4, 64), 2, [250, 128 * 11], [2, 7, 2, 8, 1]),
    case(Dtype::Bfloat16, packed(4, 64), 2, [70, 128 * 11], [4, 3, 2, 8, 2]),
    case(Dtype::Bfloat16, packed(4, 64), 2, [40, 128 * 21], [2, 1, 6, 8, 1]),
    case(Dtype::Bfloat16, packed(4, 64), 2, [33, 128 * 11], [4, 1, 2, 8, 1]),
    case(Dtype::Bfloat16, packed(4, 64), 2, [150, 128 * 5], [1, 3, 2, 8, 2]),
    case(Dtype::Bfloat16, packed(4, 32), 1, [40, 128 * 17], [1, 2, 2, 8, 2]),
    case(Dtype::Bfloat16, packed(4, 128), 2, [40, 256 * 7], [1, 2, 3, 8, 1]),
    case(Dtype::Bfloat16, packed(4, 128), 4, [48, 256 * 5], [1, 1, 2, 4, 2]),
    case(Dtype::Float16, packed(4, 64), 2, [40, 128 * 5], [2, 1, 2, 8, 1]),
    case(Dtype::Float16, packed(4, 32), 1, [60, 128], [4, 3, 2, 8, 2]),
    case(Dtype::Bfloat16, packed(8, 64), 4, [40, 128 * 13], [1, 2, 3, 8, 1]),
    case(Dtype::Bfloat16, packed(8, 128), 4, [64, 256 * 5], [4, 2, 2, 8, 1]),
    case(Dtype::Float16, packed(8, 32), 2, [33, 64 * 10], [2, 2, 2, 8, 1]),
    case(Dtype::Bfloat16, packed(8, 64), 4, [80, 128 * 3], [1, 4, 1, 2, 2]),
    case(Dtype::Float16, packed(8, 64), 4, [40, 128], [1, 1, 2, 8, 3]),
    case(Dtype::Bfloat16, None, 4, [40, 32 * 20], [2, 1, 4, 8, 2]),
    case(Dtype::Bfloat16, None, 4, [40, 32 * 20], [4, 1, 4, 8, 3]),
    case(Dtype::Bfloat16, None, 4, [70, 32 * 20], [2, 3, 3, 8, 1]),
    case(Dtype::Bfloat16, None, 4, [70, 32 * 20], [4, 3, 3, 8, 2]),
    case(Dtype::Bfloat16, packed(4, 32), 1, [90, 128 * 3], [2, 5, 2, 8, 1]),
    case(Dtype::Bfloat16, packed(8, 64), 4, [70, 128 * 3], [2, 3, 2, 8, 1]),
];

/// Weights as the kernel gets them, and the values that they stand for, `[outs, ins]`.
struct Weights {
    bytes: Vec<u8>,
    values: Vec<f64>,
    /// Bounds on what each value is a sum of.
    sizes: Vec<f64>,
}

impl Case {
    /// The program's function for it.
    pub(crate) fn call(&self) -> String {
        let (m, d) = (&self.matrix, &self.dealing);
        let (bits, group) = m.affine.map_or((16, 1), |a| (a.bits, a.group));
        let constants = [bits, group, self.words, if m.affine.is_some() { m.ins } else { 0 }, self.tiles, d.tall, d.deep, d.warps];
        format!("run_matmul<{}, {}>()", type_name(m.dtype), constants.map(|c| c.to_string()).join(", "))
    }

    fn weights(&self, random: &mut Random) -> Weights {
        let m = &self.matrix;
        let (outs, ins) = (m.outs as usize, m.ins as usize);
        let mut bytes = Vec::new();
        let Some(Affine { bits, group }) = m.affine else {
            let values: Vec<f32> = (0..outs * ins).map(|_| random.number(m.dtype)).collect();
            numbers(&mut bytes, &values, m.dtype);
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            return Weights { bytes, sizes: values.iter().map(|v| v.abs()).collect(), values };
        };
        let (bits, group) = (bits as usize, group as usize);
        let packed: Vec<u32> = (0..outs * ins * bits / 32).map(|_| random.bits() as u32).collect();
        words(&mut bytes, &packed);
        let mut side = || -> Vec<f32> { (0..outs * ins / group).map(|_| random.number(m.dtype)).collect() };
        let (scales, biases) = (side(), side());
        numbers(&mut bytes, &scales, m.dtype);
        numbers(&mut bytes, &biases, m.dtype);
        let (values, sizes) = (0..outs * ins)
            .map(|at| {
                let q = f64::from(packed[at * bits / 32] >> (at * bits % 32) & ((1 << bits) - 1));
                let (scale, bias) = (f64::from(scales[at / group]), f64::from(biases[at / group]));
                // The offset is added to q and taken off again.
                let offset = if bits == 8 {
                    0.0
                } else if m.dtype == Dtype::Bfloat16 {
                    128.0
                } else {
                    1024.0
                };
                (q * scale + bias, (q + 2.0 * offset) * scale.abs() + bias.abs())
            })
            .unzip();
        Weights { bytes, values, sizes }
    }

    /// The kernel's product of these rows.
    fn product(&self, which: usize, seed: u32, x: &[f32], weights: &Weights, barriers: bool) -> Result<Vec<f32>, String> {
        let m = &self.matrix;
        let mut input = Vec::new();
        let places = (m.outs + self.dealing.tall * 16 - 1) / (self.dealing.tall * 16);
        words(&mut input, &[(x.len() / m.ins as usize) as u32, m.outs as u32, m.ins as u32, self.dealing.groups.min(places) as u32]);
        numbers(&mut input, x, m.dtype);
        input.extend(&weights.bytes);
        Ok(back(&matmul(which, seed, &input, barriers)?, m.dtype))
    }

    fn rows(&self, random: &mut Random, rows: usize) -> Vec<f32> {
        (0..rows * self.matrix.ins as usize).map(|_| random.number(self.matrix.dtype)).collect()
    }

    /// Outputs that are not what they should be: beyond one rounding to the type, and sums in f32.
    fn wrong(&self, got: &[f32], x: &[f32], weights: &Weights) -> Vec<String> {
        let ins = self.matrix.ins as usize;
        let half_ulp = if self.matrix.dtype == Dtype::Bfloat16 { 2f64.powi(-8) } else { 2f64.powi(-11) };
        let mut wrong = Vec::new();
        let mut at = got.iter();
        for row in x.chunks_exact(ins) {
            for (values, sizes) in weights.values.chunks_exact(ins).zip(weights.sizes.chunks_exact(ins)) {
                let dot = |w: &[f64], f: fn(f64) -> f64| row.iter().zip(w).map(|(x, w)| f(f64::from(*x)) * w).sum::<f64>();
                let (want, beside) = (dot(values, |x| x), dot(sizes, f64::abs));
                // What is beyond the type's largest becomes infinite, as it should.
                let got = f64::from(*at.next().unwrap());
                let over = self.matrix.dtype == Dtype::Float16 && want.abs() > 65504.0 && got.is_infinite();
                let near = (got - want).abs() <= half_ulp * want.abs() + 8.0 * 2f64.powi(-24) * beside;
                if !near && !over {
                    wrong.push(format!("{self:?}: {got} instead of {want}"));
                }
            }
        }
        assert!(at.next().is_none(), "{self:?}: more outputs than asked for");
        wrong
    }
}

/// Rows that fill the case's tiles and that do not; a case with more tiles is not for fewer rows.
fn counts(case: &Case) -> [usize; 3] {
    let most = case.tiles as usize * 8;
    [most, most / 2 + 1, most - 3]
}

#[test]
fn products_are_their_definition_for_every_shape_and_number_of_rows() {
    for (which, case) in MATMUL.iter().enumerate() {
        let mut random = Random(41 + which as u64);
        let weights = case.weights(&mut random);
        for rows in counts(case) {
            let x = case.rows(&mut random, rows);
            let got = case.product(which, 5, &x, &weights, true).unwrap();
            let wrong = case.wrong(&got, &x, &weights);
            assert!(wrong.is_empty(), "{} of {} outputs, the first: {}", wrong.len(), got.len(), wrong[0]);
        }
    }
}

#[test]
fn a_row_has_the_same_bits_in_every_place_and_beside_any_number_of_others() {
    // Of one matrix, with constants for 8, 16 and 32 rows.
    for family in [[0, 1, 2], [8, 10, 9], [11, 12, 13], [11, 12, 15]] {
        let matrix = MATMUL[family[0]].matrix;
        let mut random = Random(3);
        let weights = MATMUL[family[0]].weights(&mut random);
        let x = MATMUL[family[0]].rows(&mut random, 32);
        let (ins, outs) = (matrix.ins as usize, matrix.outs as usize);
        let product = |which: usize, from: usize, to: usize| {
            let case = Case { matrix, ..MATMUL[which] };
            case.product(which, 9, &x[from * ins..to * ins], &weights, true).unwrap()
        };
        let all = product(family[2], 0, 32);
        for (which, from, to) in [(family[0], 0, 8), (family[0], 11, 12), (family[0], 27, 32), (family[1], 3, 16), (family[2], 15, 32)] {
            let same = product(which, from, to).iter().zip(&all[from * outs..to * outs]).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{:?}: rows {from}..{to}", MATMUL[which]);
        }
    }
}

#[test]
fn what_is_served_is_among_what_is_tried() {
    for affine in [None, packed(4, 32), packed(4, 64), packed(4, 128), packed(8, 32), packed(8, 64), packed(8, 128)] {
        for (rows, outs) in [8, 16, 32].into_iter().flat_map(|rows| [(rows, 64), (rows, 4096), (rows, 6144), (rows, 28672)]) {
            let (words, tiles, dealing) = Matrix { outs, ins: 256, dtype: Dtype::Bfloat16, affine }.served(rows).unwrap();
            // Constants of a way to pack, and of a number of tiles, may be tried in different cases.
            let like = |c: &&Case| (c.matrix.affine, c.words) == (affine, words);
            assert!(MATMUL.iter().any(|c| like(&c)), "{affine:?} in {words} words");
            let dealt =
                |c: &&Case| c.matrix.affine.is_some() == affine.is_some() && (c.tiles, c.dealing) == (tiles, Dealing { groups: c.dealing.groups, ..dealing });
            assert!(MATMUL.iter().any(|c| dealt(&c)), "{affine:?}: {tiles} tiles as {dealing:?}");
        }
    }
}

#[test]
fn a_missing_barrier_in_a_product_is_noticed() {
    // The same body with barriers that do nothing: if this gave the right product, the tests above could not fail for want of one.
    let case = &MATMUL[0];
    let mut random = Random(23);
    let weights = case.weights(&mut random);
    let x = case.rows(&mut random, 8);
    let got = case.product(0, 5, &x, &weights, false).unwrap();
    assert!(!case.wrong(&got, &x, &weights).is_empty(), "products are right without barriers");
}
