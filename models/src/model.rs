//! A loaded model and its pool: runs a step's packed pass and gives hidden states, logits, or drawn tokens.

use crate::attend::{Pool, Rows, Shape};
use crate::config::{Config, Family};
use crate::engine::EngineError;
use crate::families::Llama;
use crate::kernels::{Between, Kernels, Needs, Paged, Products, Spec};
use crate::mlx::{Place, Res};
use crate::packing::{self, Packing, Token};
use crate::rope::Rope;
use crate::tiles;
use crate::weights::{Loader, Source};
use kv::{BlockId, Geometry, Input, SeqId, Step, StepId, StepRow};
use mlx_rs::ops::indexing::{IndexOp, take_axis};
use mlx_rs::{Array, Dtype, ops};
use std::iter::repeat_n;
use std::rc::Rc;

/// Weights, rotary constants and, once [`Model::make_pool`] was called, the pool.
#[derive(Debug)]
pub struct Model {
    pub config: Config,
    family: Llama,
    rope: Rope,
    pool: Pool,
    /// Of the pool, block 0 not counted.
    blocks: u32,
    place: Place,
    /// The kernel that decode rows are sent to.
    paged: Option<Rc<Paged>>,
    route: String,
    /// Of the layer that sees most, if every layer has one.
    window: Option<u32>,
    /// Some: every pass has this many tokens.
    width: Option<u32>,
}

/// Tokens of a pass that keeps its shape, best first: as many as one reading of the weights serves at little more cost than one.
/// Which of them a machine's kernels treat alike is found out when the model is loaded; a token by itself always is.
const WIDTHS_CPU: &[u32] = &[16, 24, 32, 12, 8, 4, 1];
const WIDTHS_GPU: &[u32] = &[64, 128, 32, 16, 8, 1];

/// What a pass leaves: hidden states `[T, hidden]` in packed order, and that order.
#[derive(Debug)]
pub struct Passed {
    pub hidden: Array,
    pub packing: Packing,
}

impl Model {
    /// Loads the weights and, on a GPU, proves the kernels; the pool has no block yet.
    pub fn load(config: Config, source: &dyn Source, dense: Option<crate::weights::Float>, place: Place) -> Result<Model, EngineError> {
        let mut family = Llama::load(&config, &Loader::new(source, dense, place)?)?;
        let rope = Rope::new(&config.rope, config.head_dim);
        let shape = shape(&config, place);
        let Kernels { paged, between, products, route } = kernels(&config, &rope, &family, place);
        family.launch_between(between);
        family.multiply_by(&products);
        let pool = Pool::new(shape, 0, family.dtype(), paged.clone()).map_err(failed)?;
        let window = config.geometry(element_bytes(family.dtype())).window();
        Ok(Model { config, family, rope, pool, blocks: 0, place, paged, route, window, width: None })
    }

    /// How decode rows read their keys and which kernels serve beside, in one line, and why not otherwise.
    pub fn route(&self) -> &str {
        &self.route
    }

    /// Whether decode rows have a kernel that reads their keys in the pool; otherwise keys are gathered for every step.
    pub fn has_paged_kernel(&self) -> bool {
        self.paged.is_some()
    }

    /// No kernel of this crate is used from now on, so that decode rows gather their keys: to compare, before a pool is made.
    pub fn gather_only(&mut self) {
        self.paged = None;
        self.family.launch_between(Between::default());
        self.family.multiply_by(&Products::default());
        self.route = "decode attention gathers keys: as asked for".to_owned();
    }

    /// Allocates the pool for blocks `1..=blocks`.
    pub fn make_pool(&mut self, blocks: u32) -> Result<(), EngineError> {
        self.pool = Pool::new(shape(&self.config, self.place), blocks, self.family.dtype(), self.paged.clone()).map_err(failed)?;
        self.blocks = blocks;
        Ok(())
    }

    /// Blocks of its pool: `1..=blocks`.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// MLX checks no index, and writing past a pool is writing into somebody else's memory.
    fn within_pool(&self, row: &StepRow) -> Result<(), EngineError> {
        match row.table.iter().find(|block| block.0 > self.blocks) {
            None => Ok(()),
            Some(block) => Err(EngineError::Step(format!("row {} would use block {} of a pool of {}", row.seq.0, block.0, self.blocks))),
        }
    }

    /// What its K and V take.
    pub fn geometry(&self) -> Geometry {
        self.config.geometry(element_bytes(self.family.dtype()))
    }

    /// Bytes of one block over all layers.
    pub fn block_bytes(&self) -> u64 {
        self.geometry().block_bytes()
    }

    pub fn weight_bytes(&self) -> u64 {
        self.family.bytes()
    }

    pub fn dtype(&self) -> Dtype {
        self.family.dtype()
    }

    /// Lays a step out as one packed pass, or as passes that keep their shape. `previous` are the rows that the step before drew for.
    pub fn passes(&self, step: &Step, previous: &[SeqId]) -> Result<Vec<Packing>, EngineError> {
        step.rows.iter().try_for_each(|row| packing::check_window(row, self.window)).map_err(EngineError::Step)?;
        step.rows.iter().try_for_each(|row| self.within_pool(row))?;
        let place = |row: &StepRow| previous.iter().position(|s| *s == row.seq).map(|i| i as u32);
        let passes = match self.width {
            None => Packing::of(step, place).map(|p| vec![p]),
            Some(width) => tiles::of(step, place, width),
        };
        let passes = passes.map_err(EngineError::Step)?;
        let vocab = self.config.vocab as u32;
        let beyond = |t: &Token| if let Token::Id(id) = t { Some(*id).filter(|id| *id >= vocab) } else { None };
        if let Some(id) = passes.iter().flat_map(|p| &p.tokens).find_map(beyond) {
            return Err(EngineError::Step(format!("token {id} is outside the vocabulary of {vocab}")));
        }
        Ok(passes)
    }

    /// Copies the blocks that a step names, before its first pass.
    pub fn copy(&mut self, step: &Step) -> Result<(), EngineError> {
        self.pool.copy_blocks(&step.copies).map_err(failed)
    }

    /// Builds the graph of one of a step's passes. `previous` are the tokens that the step before drew, `[R]`.
    pub fn pass(&mut self, step: &Step, packing: Packing, previous: Option<&Array>) -> Result<Passed, EngineError> {
        let hidden = self.run(step, &packing, previous).map_err(failed)?;
        Ok(Passed { hidden, packing })
    }

    fn run(&mut self, step: &Step, packing: &Packing, previous: Option<&Array>) -> Res<Array> {
        let nobody = packing.width.map_or(0, |w| w as usize - packing.tokens.len());
        let tokens: Vec<Token> = packing.tokens.iter().copied().chain(repeat_n(Token::Id(0), nobody)).collect();
        let positions: Vec<u32> = packing.positions.iter().copied().chain(repeat_n(0, nobody)).collect();
        let angles = self.rope.angles(&positions);
        let rows = Rows::new(step, packing, &self.pool)?;
        self.family.forward(&ids(&tokens, previous)?, &angles, &rows, &mut self.pool)
    }

    /// Logits `[R, vocab]` f32 of the packed tokens at these indices.
    pub fn logits(&self, passed: &Passed, at: &[u32]) -> Result<Array, EngineError> {
        let rows = at.len().max(passed.packing.width.unwrap_or(0) as usize);
        let filled: Vec<u32> = at.iter().copied().chain(repeat_n(0, rows - at.len())).collect();
        let pick = || {
            let all = self.family.logits(&take_axis(&passed.hidden, Array::from_slice(&filled, &[rows as i32]), 0)?)?;
            Ok(if rows > at.len() { all.index(..at.len() as i32) } else { all })
        };
        pick().map_err(failed)
    }

    /// From here on every pass has the same shape (see [`crate::tiles`]), of the width that is returned. The pool must have a block.
    pub fn keep_shape(&mut self) -> Result<u32, EngineError> {
        let widths = match self.place {
            Place::Cpu => WIDTHS_CPU,
            Place::Gpu => WIDTHS_GPU,
        };
        for width in widths {
            self.width = Some(*width);
            if self.treats_rows_alike(*width)? {
                return Ok(*width);
            }
        }
        Err(EngineError::Step("two passes of one token differ in their shape".to_owned()))
    }

    /// Whether a token has the same bits in every place of a pass: whether the machine's kernels do the same to each row of a
    /// matrix. The same token stands in all places, at position 0, and writes the same K and V, of block 1, from each.
    fn treats_rows_alike(&mut self, width: u32) -> Result<bool, EngineError> {
        let token = |seq| StepRow { seq: SeqId(seq), input: Input::Tokens(vec![1]), start: 0, table: vec![BlockId(1)], draw: None };
        let step = Step { id: StepId(0), copies: Vec::new(), rows: (0..u64::from(width)).map(token).collect() };
        for packing in self.passes(&step, &[])? {
            let passed = self.pass(&step, packing, None)?;
            let logits = self.logits(&passed, &(0..width).collect::<Vec<u32>>())?;
            // Weights that are not numbers are somebody else's finding: NaN is like NaN here.
            let same = || ops::logical_or(logits.index(..1).eq(&logits)?, ops::is_nan(&logits)?)?.all(None);
            let alike = same().map_err(failed)?;
            if !alike.try_item_exact::<bool>().map_err(|e| EngineError::Step(e.to_string()))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn element_bytes(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::Float32 => 4,
        _ => 2,
    }
}

fn shape(c: &Config, place: Place) -> Shape {
    Shape { heads: c.heads as i32, kv_heads: c.kv_heads as i32, head_dim: c.head_dim as i32, windows: c.windows.clone(), place }
}

/// The kernels that are for this place and give what MLX gives.
fn kernels(c: &Config, rope: &Rope, family: &Llama, place: Place) -> Kernels {
    if place == Place::Cpu {
        return Kernels::none("the kernel is for GPUs");
    }
    let spec = Spec { heads: c.heads as i32, kv_heads: c.kv_heads as i32, head_dim: c.head_dim as i32, dtype: family.dtype() };
    let qk_norm = c.family == Family::Qwen3;
    let matrices = family.matrices();
    Kernels::proven(&Needs { spec, rope, hidden: c.hidden as i32, inner: c.intermediate as i32, eps: c.norm_eps, qk_norm, matrices: &matrices })
}

/// Ids `[T]`: those known here, and those that only the device knows yet.
fn ids(tokens: &[Token], previous: Option<&Array>) -> Res<Array> {
    let known: Vec<i32> = tokens.iter().map(|t| if let Token::Id(id) = t { *id as i32 } else { 0 }).collect();
    let known = Array::from_slice(&known, &[tokens.len() as i32]);
    let Some(previous) = previous.filter(|_| tokens.iter().any(|t| matches!(t, Token::Previous(_)))) else { return Ok(known) };
    let count = tokens.len() as u32;
    let from: Vec<u32> = (0..count).zip(tokens).map(|(i, t)| if let Token::Previous(r) = t { count + r } else { i }).collect();
    take_axis(ops::concatenate(&[&known, previous], 0)?, Array::from_slice(&from, &[count as i32]), 0)
}

/// An MLX error during a step or load.
pub(crate) fn failed(e: mlx_rs::error::Exception) -> EngineError {
    EngineError::Step(e.what().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::logits;
    use crate::weights::{self, Float};
    use std::path::Path;

    fn model(windows: &[Option<usize>], deterministic: bool) -> Model {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tiny/qwen3_qknorm");
        let (mut config, source) = weights::open(&dir).unwrap();
        config.windows = windows.iter().cycle().take(config.layers).copied().collect();
        let mut model = Model::load(config, source.as_ref(), Some(Float::F32), Place::Cpu).unwrap();
        model.make_pool(16).unwrap();
        if deterministic {
            model.keep_shape().unwrap();
        }
        model
    }

    fn ids(seq: u64, from: u32, count: u32) -> Input {
        Input::Tokens((from..from + count).map(|i| (i * 7 + 3 * seq as u32) % 61).collect())
    }

    fn row(seq: u64, start: u32, count: u32, table: &[u32]) -> StepRow {
        StepRow { seq: SeqId(seq), input: ids(seq, start, count), start, table: table.iter().map(|b| BlockId(*b)).collect(), draw: None }
    }

    fn step(rows: Vec<StepRow>) -> Step {
        Step { id: StepId(1), copies: Vec::new(), rows }
    }

    /// A chunk, and then a token, of a row that has given up what lies behind its window, beside one that has not, with the bits that
    /// they have where every block is there.
    #[test]
    fn what_lies_behind_the_window_is_not_read() {
        let _turn = crate::mlx::turn();
        for deterministic in [false, true] {
            let mut model = model(&[Some(40), Some(25)], deterministic);
            logits(&mut model, &step(vec![row(1, 0, 150, &[1, 2, 3, 4, 5]), row(2, 0, 20, &[9])])).unwrap();
            for (start, count) in [(150, 10), (160, 1)] {
                let mut with = |table: &[u32]| logits(&mut model, &step(vec![row(1, start, count, table), row(2, 20, 1, &[9])])).unwrap();
                let whole = with(&[1, 2, 3, 4, 5, 6][..(start + count).div_ceil(32) as usize]);
                // The first position that is read is 111, and then 121: of the fourth block.
                let behind = with(&[0, 0, 0, 4, 5, 6][..(start + count).div_ceil(32) as usize]);
                assert_eq!(whole, behind, "{count} tokens at {start}, deterministic {deterministic}");
                assert!(whole[0].iter().all(|z| z.is_finite()));
            }
        }
    }

    #[test]
    fn blocks_that_are_nobodys_are_refused() {
        let _turn = crate::mlx::turn();
        let rows: [(&[Option<usize>], &[u32]); 4] = [
            (&[Some(40), Some(25)], &[0, 0, 0, 0, 5]),
            (&[Some(40), Some(25)], &[0, 0, 0, 4, 0]),
            (&[Some(40), None], &[0, 0, 0, 4, 5]),
            (&[None], &[0, 2, 3, 4, 5]),
        ];
        let beyond = model(&[None], false).passes(&step(vec![row(7, 150, 10, &[1, 2, 3, 4, 17])]), &[]).unwrap_err();
        assert!(beyond.to_string().contains("row 7 would use block 17 of a pool of 16"), "{beyond}");
        for (windows, table) in rows {
            let refused = model(windows, false).passes(&step(vec![row(7, 150, 10, table)]), &[]).unwrap_err();
            assert!(refused.to_string().contains("row 7 would use block 0"), "{windows:?}: {refused}");
        }
        assert!(model(&[Some(40)], false).passes(&step(vec![row(7, 150, 10, &[0, 0, 0, 4, 5])]), &[]).is_ok());
    }
}
