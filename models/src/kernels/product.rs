//! Products of a few rows with a large matrix, such as a batch's next tokens with a layer's weights: every weight is read once, for all
//! rows, and nothing is captured or planned for a new number of rows.

use super::raw::{Config, Grid, Kernel};
use super::source::Kind;
use crate::mlx::Res;
use mlx_rs::{Array, Dtype};
use std::cell::OnceCell;

/// A matrix `[outs, ins]` that rows of `ins` are multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matrix {
    pub outs: i32,
    pub ins: i32,
    /// Of the rows, of the product, and of weights that are not packed.
    pub dtype: Dtype,
    pub affine: Option<Affine>,
}

/// Weights packed into words, whose scales and biases are of the matrix's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affine {
    pub bits: i32,
    pub group: i32,
}

/// The kernel's constants that change how fast it is. Of these, `warps` alone changes the order in which terms are added, so that it
/// must not follow from the number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dealing {
    /// Tiles of 16 outputs that a threadgroup takes.
    pub tall: i32,
    /// Steps that a lane asks for before it uses the first.
    pub deep: i32,
    pub warps: i32,
}

/// Most rows that the kernel is for.
pub const ROWS_MAX: i32 = 32;

/// Fewest rows for which it is used: for one row MLX has a kernel that reads the weights once, too.
const ROWS_MIN: i32 = 2;

/// Whether it is used where it holds. On a Mac MLX's own products serve few rows well, and this one has no matrix units there.
pub(super) const SERVES: bool = cfg!(not(target_os = "macos"));

/// Rows of a tile.
const TILE: i32 = 8;

/// See [`Dealing`].
const TALL_MAX: i32 = 4;
const WARPS: i32 = 8;

/// Outputs from which a matrix has threadgroups to spare, so that each may take more of them.
const MANY_OUTS: i32 = 16 * 1024;

impl Matrix {
    /// Words that a lane takes of each of its rows in a step, or why there is no kernel for this matrix.
    fn words(&self) -> Result<i32, String> {
        if !matches!(self.dtype, Dtype::Float16 | Dtype::Bfloat16) {
            return Err(format!("no kernel for {:?}: float16 and bfloat16 are possible", self.dtype));
        }
        let (bits, words) = match self.affine {
            None => (16, 4),
            // A step of four lanes lies in one group; more than two words of 4 bits would take too many registers once unpacked.
            Some(Affine { bits: 4, group: 32 }) => (4, 1),
            Some(Affine { bits: 4, group: 64 | 128 }) => (4, 2),
            Some(Affine { bits: 8, group: 32 }) => (8, 2),
            Some(Affine { bits: 8, group: 64 | 128 }) => (8, 4),
            Some(Affine { bits, group }) => return Err(format!("no kernel for {bits} bits in groups of {group}")),
        };
        let held = words * 32 / bits;
        let step = (4 * held).max(self.affine.map_or(1, |a| a.group));
        if self.ins < step || self.ins % step != 0 {
            return Err(format!("no kernel for rows of {}: multiples of {step} are possible", self.ins));
        }
        if self.outs < TALL_MAX * 16 {
            return Err(format!("no kernel for {} outputs: {} are needed", self.outs, TALL_MAX * 16));
        }
        if i64::from(self.outs) * i64::from(self.ins / held) > i64::from(i32::MAX) {
            return Err(format!("no kernel for {} times {} weights: it counts them in 32 bits", self.outs, self.ins));
        }
        Ok(words)
    }

    /// Words, tiles and the other constants for so many rows.
    pub fn served(&self, rows: i32) -> Result<(i32, i32, Dealing), String> {
        let tiles = tiles(rows);
        Ok((self.words()?, tiles, Dealing::of(self, tiles)))
    }

    /// Whether the kernel is the faster one for so many rows, as far as measured (docs/gpu.md). For many rows of a large dense matrix MLX's
    /// product is, by more than it costs the host to have it captured.
    fn pays(&self, rows: i32) -> bool {
        let rows_max = if self.affine.is_none() && self.outs >= MANY_OUTS { 2 * TILE } else { ROWS_MAX };
        (ROWS_MIN..=rows_max).contains(&rows)
    }

    fn kind(&self) -> Kind {
        if self.affine.is_some() { Kind::PackedProduct } else { Kind::Product }
    }
}

impl Dealing {
    /// What is fastest as far as measured (docs/gpu.md).
    fn of(matrix: &Matrix, tiles: i32) -> Dealing {
        let (tall, deep) = match (tiles, matrix.affine.is_some(), matrix.outs >= MANY_OUTS) {
            // Few threadgroups, and few rows to read for each: the more of them, the better.
            (1, _, false) => (1, 4),
            (1, _, true) => (2, 2),
            (2, false, _) => (2, 4),
            (2, true, false) => (2, 6),
            // Every threadgroup reads all rows: taller ones read them less often.
            (2, true, true) | (_, _, true) => (4, 2),
            (_, _, false) => (2, 2),
        };
        Dealing { tall, deep, warps: WARPS }
    }
}

/// Tiles for so many rows: few different ones, since each is compiled by itself.
fn tiles(rows: i32) -> i32 {
    ((rows + TILE - 1) / TILE).cast_unsigned().next_power_of_two().cast_signed()
}

/// The kernel for one shape of matrix.
#[derive(Debug)]
pub struct Product {
    matrix: Matrix,
    /// Decides the constants.
    dealt_as: Matrix,
    words: i32,
    dealing: Option<Dealing>,
    kernel: Kernel,
    /// By the number of rows less one; each is made when it is first needed, and kept.
    launches: [OnceCell<Config>; ROWS_MAX as usize],
}

impl Product {
    /// Nothing is compiled yet: that happens when the first outputs are evaluated.
    pub fn new(matrix: Matrix) -> Result<Product, String> {
        let words = matrix.words()?;
        let kernel = Kernel::new(matrix.kind()).map_err(|e| e.what().to_owned())?;
        Ok(Product { matrix, dealt_as: matrix, words, dealing: None, kernel, launches: [const { OnceCell::new() }; ROWS_MAX as usize] })
    }

    /// With the constants of another matrix, of which this one has some rows.
    pub(super) fn part_of(whole: Matrix, outs: i32) -> Result<Product, String> {
        Ok(Product { dealt_as: whole, ..Product::new(Matrix { outs, ..whole })? })
    }

    /// With other constants than those that are served, whatever the number of rows: to compare.
    pub fn dealt(matrix: Matrix, dealing: Dealing) -> Result<Product, String> {
        if matrix.outs < dealing.tall * 16 {
            return Err(format!("no kernel for {} outputs by {} tiles", matrix.outs, dealing.tall));
        }
        Ok(Product { dealing: Some(dealing), ..Product::new(matrix)? })
    }

    pub fn matrix(&self) -> Matrix {
        self.matrix
    }

    /// Whether it is to be used for such rows.
    pub fn serves(&self, x: &Array) -> bool {
        let fits = x.ndim() == 2 && x.dtype() == self.matrix.dtype && x.dim(1) == self.matrix.ins;
        fits && self.matrix.pays(x.dim(0))
    }

    /// `x` `[rows, ins]` of up to [`ROWS_MAX`] rows → `[rows, outs]`. `weights`: the matrix, or its words, scales and biases. All of them
    /// are arrays of their own, or whole rows of such: that is, they begin on 16 bytes.
    pub fn apply(&self, x: &Array, weights: &[&Array]) -> Res<Array> {
        let m = &self.matrix;
        let rows = x.dim(0);
        assert!(x.shape() == [rows, m.ins] && x.dtype() == m.dtype && (1..=ROWS_MAX).contains(&rows), "rows of another model");
        match (m.affine, weights) {
            (None, [w]) => assert!(w.shape() == [m.outs, m.ins] && w.dtype() == m.dtype, "weights of another model"),
            (Some(Affine { bits, group }), [words, scales, biases]) => {
                assert!(words.shape() == [m.outs, m.ins * bits / 32] && words.dtype() == Dtype::Uint32, "words of another model");
                let side = |a: &Array| a.shape() == [m.outs, m.ins / group] && a.dtype() == m.dtype;
                assert!(side(scales) && side(biases), "scales of another model");
            }
            _ => unreachable!("a matrix in {} arrays", weights.len()),
        }
        let launch = &self.launches[rows as usize - 1];
        let launch = match launch.get() {
            Some(made) => made,
            None => {
                let made = self.launch(rows)?;
                launch.get_or_init(|| made)
            }
        };
        let inputs: Vec<&Array> = std::iter::once(x).chain(weights.iter().copied()).collect();
        // SAFETY: types and shapes are asserted, those that the kernel can do by `Matrix::words`; MLX makes inputs contiguous, and copies
        // begin on 16 bytes as its arrays do.
        Ok(unsafe { self.kernel.apply(&inputs, launch)? }.remove(0))
    }

    fn launch(&self, rows: i32) -> Res<Config> {
        let m = &self.matrix;
        let tiles = tiles(rows);
        let Dealing { tall, deep, warps } = self.dealing.unwrap_or_else(|| Dealing::of(&self.dealt_as, tiles));
        let group = warps * 32;
        let grid = Grid { threads: [(m.outs + tall * 16 - 1) / (tall * 16) * group, 1, 1], group };
        let mut constants =
            vec![(c"BITS", m.affine.map_or(16, |a| a.bits)), (c"WORDS", self.words), (c"TILES", tiles), (c"TALL", tall), (c"DEEP", deep), (c"WARPS", warps)];
        constants.extend(m.affine.iter().flat_map(|a| [(c"K", m.ins), (c"GROUP", a.group)]));
        Config::new(grid, &[(&[rows, m.outs], m.dtype)], m.dtype, &constants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_the_rows_and_few_counts_of_them_occur() {
        for (rows, want) in [(1, 1), (8, 1), (9, 2), (16, 2), (17, 4), (25, 4), (32, 4)] {
            assert_eq!(tiles(rows), want, "{rows} rows");
        }
    }

    #[test]
    fn large_dense_matrices_are_for_mlx_from_17_rows_on() {
        let dense = Matrix { outs: 4096, ins: 4096, dtype: Dtype::Bfloat16, affine: None };
        let packed = Some(Affine { bits: 4, group: 64 });
        let large = Matrix { outs: 1 << 15, ..dense };
        for (matrix, last) in [(dense, 32), (large, 16), (Matrix { affine: packed, ..large }, 32)] {
            let served: Vec<i32> = (0..100).filter(|rows| matrix.pays(*rows)).collect();
            assert_eq!(served, (2..=last).collect::<Vec<i32>>(), "{matrix:?}");
        }
    }

    #[test]
    fn what_decides_the_order_of_additions_does_not_follow_from_the_rows() {
        for affine in [None, Some(Affine { bits: 4, group: 64 }), Some(Affine { bits: 8, group: 32 })] {
            let matrix = Matrix { outs: 4096, ins: 4096, dtype: Dtype::Bfloat16, affine };
            let warps: Vec<i32> = [1, 2, 4].iter().map(|t| Dealing::of(&matrix, *t).warps).collect();
            assert!(warps.iter().all(|w| *w == warps[0]), "{affine:?}: {warps:?}");
        }
    }

    #[test]
    fn matrices_without_a_kernel_are_named() {
        let dense = Matrix { outs: 6144, ins: 4096, dtype: Dtype::Bfloat16, affine: None };
        let packed = |bits, group| Matrix { affine: Some(Affine { bits, group }), ..dense };
        let table = [
            (dense, Ok(4)),
            (packed(4, 64), Ok(2)),
            (packed(8, 128), Ok(4)),
            (Matrix { ins: 32, outs: 64, ..dense }, Ok(4)),
            (Matrix { dtype: Dtype::Float32, ..dense }, Err("Float32")),
            (Matrix { ins: 40, ..dense }, Err("rows of 40: multiples of 32")),
            (Matrix { ins: 96, ..packed(4, 64) }, Err("rows of 96: multiples of 64")),
            (Matrix { outs: 63, ..dense }, Err("63 outputs: 64 are needed")),
            (packed(3, 64), Err("3 bits in groups of 64")),
            (Matrix { outs: 1 << 20, ins: 1 << 16, ..dense }, Err("32 bits")),
        ];
        for (matrix, want) in table {
            match (matrix.words(), want) {
                (got, Ok(words)) => assert_eq!(got, Ok(words), "{matrix:?}"),
                (Ok(_), Err(part)) => panic!("{matrix:?} has a kernel: {part} expected"),
                (Err(got), Err(part)) => assert!(got.contains(part), "{matrix:?}: {got}"),
            }
        }
    }
}
