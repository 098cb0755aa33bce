//! A loaded model and its pool: runs a step's packed pass and gives hidden states, logits, or drawn tokens.

use crate::attend::{Pool, Rows, Shape};
use crate::config::Config;
use crate::engine::EngineError;
use crate::families::Llama;
use crate::mlx::{Place, Res};
use crate::packing::{Packing, Token};
use crate::rope::Rope;
use crate::weights::{Loader, Source};
use kv::{Step, StepRow};
use mlx_rs::ops::indexing::take_axis;
use mlx_rs::{Array, Dtype, ops};

/// Weights, rotary constants and, once [`Model::make_pool`] was called, the pool.
#[derive(Debug)]
pub struct Model {
    pub config: Config,
    family: Llama,
    rope: Rope,
    pool: Pool,
    place: Place,
}

/// What a pass leaves: hidden states `[T, hidden]` in packed order, and that order.
#[derive(Debug)]
pub struct Passed {
    pub hidden: Array,
    pub packing: Packing,
}

impl Model {
    /// Loads the weights; the pool has no block yet.
    pub fn load(config: Config, source: &dyn Source, dense: Option<crate::weights::Float>, place: Place) -> Result<Model, EngineError> {
        let family = Llama::load(&config, &Loader::new(source, dense, place)?)?;
        let rope = Rope::new(&config.rope, config.head_dim);
        let pool = Pool::new(shape(&config, place), 0, family.dtype()).map_err(failed)?;
        Ok(Model { config, family, rope, pool, place })
    }

    /// Allocates the pool for blocks `1..=blocks`.
    pub fn make_pool(&mut self, blocks: u32) -> Result<(), EngineError> {
        self.pool = Pool::new(shape(&self.config, self.place), blocks, self.family.dtype()).map_err(failed)?;
        Ok(())
    }

    /// Bytes of one block over all layers.
    pub fn block_bytes(&self) -> u64 {
        let element = match self.family.dtype() {
            Dtype::Float32 => 4,
            _ => 2,
        };
        self.config.geometry(element).block_bytes()
    }

    pub fn weight_bytes(&self) -> u64 {
        self.family.bytes()
    }

    pub fn dtype(&self) -> Dtype {
        self.family.dtype()
    }

    /// Builds the graph of one packed pass. `previous` are the tokens of the step before, `[R]`, and the rows that have one.
    pub fn pass(&mut self, step: &Step, previous: Option<(&Array, &[kv::SeqId])>) -> Result<Passed, EngineError> {
        let place = |row: &StepRow| previous.and_then(|(_, seqs)| seqs.iter().position(|s| *s == row.seq)).map(|i| i as u32);
        let packing = Packing::of(step, place).map_err(EngineError::Step)?;
        let vocab = self.config.vocab as u32;
        if let Some(id) = packing.tokens.iter().find_map(|t| if let Token::Id(id) = t { Some(*id).filter(|id| *id >= vocab) } else { None }) {
            return Err(EngineError::Step(format!("token {id} is outside the vocabulary of {vocab}")));
        }
        let hidden = self.run(step, &packing, previous.map(|p| p.0)).map_err(failed)?;
        Ok(Passed { hidden, packing })
    }

    fn run(&mut self, step: &Step, packing: &Packing, previous: Option<&Array>) -> Res<Array> {
        self.pool.copy_blocks(&step.copies)?;
        let ids = ids(&packing.tokens, previous)?;
        let angles = self.rope.angles(&packing.positions, self.family.dtype())?;
        self.family.forward(&ids, &angles, &Rows::new(packing), &mut self.pool)
    }

    /// Logits `[R, vocab]` f32 of the packed tokens at these indices.
    pub fn logits(&self, passed: &Passed, at: &[u32]) -> Result<Array, EngineError> {
        let pick = || self.family.logits(&take_axis(&passed.hidden, Array::from_slice(at, &[at.len() as i32]), 0)?);
        pick().map_err(failed)
    }
}

fn shape(c: &Config, place: Place) -> Shape {
    Shape { heads: c.heads as i32, kv_heads: c.kv_heads as i32, head_dim: c.head_dim as i32, windows: c.windows.clone(), place }
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
