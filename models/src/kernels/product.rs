//! Products of a few rows with a large matrix, such as a batch's next tokens with a layer's weights: every weight is read once, for all
//! rows, and nothing is captured or planned for a new number of rows.

use super::raw::{Config, Grid, Kernel};
use super::source::Kind;
use crate::mlx::Res;
use mlx_rs::error::Exception;
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
    /// Tiles of 16 outputs that a threadgroup takes at a time.
    pub tall: i32,
    /// Steps along a row that are on their way or in use.
    pub deep: i32,
    pub warps: i32,
    /// Threadgroups, each of which takes turns until all outputs are done; fewer where there are not so many turns.
    pub groups: i32,
}

/// Most rows that the kernel is for.
pub const ROWS_MAX: i32 = 32;

/// Fewest rows for which it is used: for one row MLX has a kernel that reads the weights once, too.
const ROWS_MIN: i32 = 2;

/// Whether it is used where it holds. On a Mac MLX's own products serve few rows well, and this one has no matrix units there.
pub(super) const SERVES: bool = cfg!(not(target_os = "macos"));

/// Rows of a tile.
const TILE: i32 = 8;

/// Most tiles of outputs of a threadgroup.
const TALL_MAX: i32 = 7;
const WARPS: i32 = 8;

/// Multiprocessors of an H200, each of which has room for one threadgroup or two. Another GPU runs them in turns, or has some idle.
const PROCESSORS: i32 = 132;

/// Bytes that a threadgroup may share there.
const SHARED_MAX: i32 = 227 * 1024;

/// From here on MLX asks for as much as is needed with what the kernel's text declares (see [`Kernel::sharing`]).
const ASKED_MIN: i32 = 48 * 1024;

/// Outputs from which a matrix has turns to spare for two threadgroups on each multiprocessor.
const MANY_OUTS: i32 = 16 * 1024;

impl Matrix {
    /// Words of a lane's four in a step that belong to one group, or why there is no kernel for this matrix.
    fn words(&self) -> Result<i32, String> {
        if !matches!(self.dtype, Dtype::Float16 | Dtype::Bfloat16) {
            return Err(format!("no kernel for {:?}: float16 and bfloat16 are possible", self.dtype));
        }
        let words = match self.affine {
            None => 4,
            Some(Affine { bits: 4, group: 32 }) => 1,
            // More than two words of 4 bits would take too many registers once unpacked.
            Some(Affine { bits: 4, group: 64 | 128 }) | Some(Affine { bits: 8, group: 32 }) => 2,
            Some(Affine { bits: 8, group: 64 | 128 }) => 4,
            Some(Affine { bits, group }) => return Err(format!("no kernel for {bits} bits in groups of {group}")),
        };
        // Whole steps, and scales that are asked for by two begin at an even one.
        let step = (512 / self.bits()).max(self.affine.map_or(1, |a| 2 * a.group));
        if self.ins < step || self.ins % step != 0 {
            return Err(format!("no kernel for rows of {}: multiples of {step} are possible", self.ins));
        }
        if self.outs < 16 {
            return Err(format!("no kernel for {} outputs: 16 are needed", self.outs));
        }
        if i64::from(self.outs) * i64::from(self.ins / (128 / self.bits())) > i64::from(i32::MAX) {
            return Err(format!("no kernel for {} times {} weights: it counts them in 32 bits", self.outs, self.ins));
        }
        Ok(words)
    }

    /// Of a weight.
    fn bits(&self) -> i32 {
        self.affine.map_or(16, |a| a.bits)
    }

    /// Words, tiles and the other constants for so many rows.
    pub fn served(&self, rows: i32) -> Result<(i32, i32, Dealing), String> {
        let tiles = tiles(rows);
        Ok((self.words()?, tiles, Dealing::of(self, tiles)))
    }

    /// Bytes of what a threadgroup has asked for: see the kernel's text.
    fn asked(&self, tiles: i32, dealing: &Dealing) -> i32 {
        let sides = self.affine.map_or(0, |a| if 512 / a.bits / a.group == 4 { 4 } else { 2 });
        let each = dealing.tall * 2 + tiles * 16 / self.bits() + ceil(dealing.tall * sides, 8);
        (dealing.warps * dealing.deep * each * 512).max(ASKED_MIN)
    }

    /// Whether a threadgroup has room for that and for its warps' sums.
    fn fits(&self, tiles: i32, dealing: &Dealing) -> bool {
        let sums = dealing.warps * TILE * (dealing.tall * 16 + 4) * 4;
        self.asked(tiles, dealing) + sums <= SHARED_MAX
    }

    fn kind(&self) -> Kind {
        if self.affine.is_some() { Kind::PackedProduct } else { Kind::Product }
    }
}

impl Dealing {
    /// What is fastest as far as measured (docs/gpu.md).
    fn of(matrix: &Matrix, tiles: i32) -> Dealing {
        if cfg!(target_os = "macos") {
            // A threadgroup shares 32 KiB there, and copies are made at once.
            return Dealing { tall: 1, deep: 1, warps: 2, groups: i32::MAX };
        }
        let packed = matrix.affine.is_some();
        // Few rows leave room for two threadgroups, whose ends fall into each other's middle; many of them, unpacked weights beside them,
        // leave registers for few outputs.
        let (tall_max, each) = match (tiles, packed) {
            (1, _) if matrix.outs >= MANY_OUTS => (3, 2),
            (4, true) => (3, 1),
            _ => (TALL_MAX, 1),
        };
        let groups = PROCESSORS * each;
        let deep = |tall: i32| match (packed, tall) {
            (true, _) | (_, 4..) => 2,
            (_, 3) => 3,
            _ => 4,
        };
        // Turns of one height, of which every threadgroup takes as many; the taller, the less often x is read.
        let most = ceil(ceil(matrix.outs, 16), groups);
        let fits = |tall: &i32| matrix.fits(tiles, &Dealing { tall: *tall, deep: deep(*tall), warps: WARPS, groups });
        let tall_max = (1..=tall_max).rev().find(fits).unwrap_or(1);
        let tall = ceil(most, ceil(most, tall_max));
        Dealing { tall, deep: deep(tall), warps: WARPS, groups }
    }
}

fn ceil(count: i32, each: i32) -> i32 {
    (count + each - 1) / each
}

/// Tiles for so many rows: few different ones, since each is compiled by itself.
fn tiles(rows: i32) -> i32 {
    ((rows + TILE - 1) / TILE).cast_unsigned().next_power_of_two().cast_signed()
}

/// The kernel for one shape of matrix.
#[derive(Debug)]
pub struct Product {
    matrix: Matrix,
    /// Decides the constants, unless there are others.
    dealt_as: Matrix,
    /// Most threadgroups, beside what the constants say.
    groups_max: i32,
    words: i32,
    dealing: Option<Dealing>,
    /// For 1, 2 and 4 tiles; each is made when it is first needed, as launches are.
    kernels: [OnceCell<Kernel>; 3],
    /// By the number of rows less one.
    launches: [OnceCell<Config>; ROWS_MAX as usize],
}

impl Product {
    /// Nothing is compiled yet: that happens when the first outputs are evaluated.
    pub fn new(matrix: Matrix) -> Result<Product, String> {
        let words = matrix.words()?;
        let (kernels, launches) = ([const { OnceCell::new() }; 3], [const { OnceCell::new() }; ROWS_MAX as usize]);
        Ok(Product { matrix, dealt_as: matrix, groups_max: i32::MAX, words, dealing: None, kernels, launches })
    }

    /// With the constants of another matrix, of which this one has some rows, in few threadgroups, so that each takes several turns.
    pub(super) fn part_of(whole: Matrix, outs: i32) -> Result<Product, String> {
        Ok(Product { dealt_as: whole, groups_max: 2, ..Product::new(Matrix { outs, ..whole })? })
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
        fits && (ROWS_MIN..=ROWS_MAX).contains(&x.dim(0))
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
        let launch = made(&self.launches[rows as usize - 1], || self.launch(rows))?;
        let kernel = made(&self.kernels[tiles(rows).trailing_zeros() as usize], || Kernel::sharing(m.kind(), m.asked(tiles(rows), &self.dealing(rows))))?;
        let inputs: Vec<&Array> = std::iter::once(x).chain(weights.iter().copied()).collect();
        // SAFETY: types and shapes are asserted, those that the kernel can do by `Matrix::words`; MLX makes inputs contiguous, and copies
        // begin on 16 bytes as its arrays do.
        Ok(unsafe { kernel.apply(&inputs, launch)? }.remove(0))
    }

    fn dealing(&self, rows: i32) -> Dealing {
        self.dealing.unwrap_or_else(|| Dealing::of(&self.dealt_as, tiles(rows)))
    }

    fn launch(&self, rows: i32) -> Res<Config> {
        let (m, tiles, dealing) = (&self.matrix, tiles(rows), self.dealing(rows));
        if !m.fits(tiles, &dealing) {
            return Err(Exception::custom(format!("{dealing:?} has no room for {rows} rows")));
        }
        let Dealing { tall, deep, warps, groups } = dealing;
        let group = warps * 32;
        let grid = Grid { threads: [ceil(m.outs, tall * 16).min(groups).min(self.groups_max) * group, 1, 1], group };
        let mut constants = vec![(c"BITS", m.bits()), (c"TILES", tiles), (c"TALL", tall), (c"DEEP", deep), (c"WARPS", warps)];
        constants.extend(m.affine.iter().flat_map(|a| [(c"WORDS", self.words), (c"K", m.ins), (c"GROUP", a.group)]));
        Config::new(grid, &[(&[rows, m.outs], m.dtype)], m.dtype, &constants)
    }
}

/// What is there, or is made now.
fn made<X>(cell: &OnceCell<X>, make: impl FnOnce() -> Res<X>) -> Res<&X> {
    match cell.get() {
        Some(there) => Ok(there),
        None => {
            let one = make()?;
            Ok(cell.get_or_init(|| one))
        }
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
    fn threadgroups_take_as_many_turns_each_and_have_room() {
        let dense = Matrix { outs: 4096, ins: 4096, dtype: Dtype::Bfloat16, affine: None };
        let packed = |group| Some(Affine { bits: 4, group });
        let table = [
            (dense, 4, (2, 4, 132)),
            (Matrix { outs: 6144, ..dense }, 4, (3, 3, 132)),
            (Matrix { outs: 28672, ..dense }, 4, (7, 2, 132)),
            (Matrix { outs: 28672, ..dense }, 1, (3, 3, 264)),
            (Matrix { outs: 128_256, ..dense }, 2, (7, 2, 132)),
            (Matrix { outs: 16, ..dense }, 1, (1, 4, 132)),
            (Matrix { outs: 28672, affine: packed(64), ..dense }, 2, (7, 2, 132)),
            (Matrix { outs: 28672, affine: packed(64), ..dense }, 4, (3, 2, 132)),
            // Four scales of a step take the room of a tile.
            (Matrix { outs: 28672, affine: packed(32), ..dense }, 2, (5, 2, 132)),
        ];
        for (matrix, tiles, (tall, deep, groups)) in table {
            let dealing = Dealing::of(&matrix, tiles);
            if !cfg!(target_os = "macos") {
                assert_eq!(dealing, Dealing { tall, deep, warps: WARPS, groups }, "{matrix:?}, {tiles} tiles");
            }
            assert!(matrix.fits(tiles, &dealing), "{matrix:?}, {tiles} tiles");
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
            (Matrix { ins: 32, outs: 16, ..dense }, Ok(4)),
            (Matrix { dtype: Dtype::Float32, ..dense }, Err("Float32")),
            (Matrix { ins: 40, ..dense }, Err("rows of 40: multiples of 32")),
            (Matrix { ins: 192, ..packed(4, 64) }, Err("rows of 192: multiples of 128")),
            (Matrix { outs: 15, ..dense }, Err("15 outputs: 16 are needed")),
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
