//! What a step takes beside weights and pool: measured, by running the heaviest step there can be before the pool is made.

use crate::engine::{Engine, EngineError};
use crate::mlx;
use crate::mlx_engine::Opened;
use crate::model::failed;
use kv::step::BLOCK_TOKENS;
use kv::{BlockId, Draw, Input, Sampling, SeqId, Step, StepId, StepRow};

/// The heaviest step: a full batch of decoding rows and a chunk of another one's prompt, each at the end of its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heaviest {
    /// Rows that decode.
    pub rows: u32,
    /// Tokens of the chunk.
    pub chunk: u32,
    /// Positions of a row.
    pub context: u32,
    /// Steps in flight.
    pub depth: u32,
}

impl Heaviest {
    fn step(&self, id: u64) -> Step {
        let row = |seq: u64, count: u32| StepRow {
            seq: SeqId(seq),
            input: Input::Tokens(vec![0; count as usize]),
            start: self.context - count,
            // One block stands for all: what is in it does not matter.
            table: vec![BlockId(1); self.context.div_ceil(BLOCK_TOKENS) as usize],
            draw: Some(draw()),
        };
        let decoding = (1..=u64::from(self.rows)).map(|seq| row(seq, 1));
        let rows = decoding.chain([row(0, self.chunk.min(self.context))]).collect();
        Step { id: StepId(id), copies: Vec::new(), rows }
    }
}

/// One that asks for everything that drawing can do.
fn draw() -> Draw {
    Draw::new(Sampling { temperature: 1.0, top_p: 0.9, top_k: 50, min_p: 0.01, seed: 0 }, 0)
}

impl Opened {
    /// Bytes that `heaviest` took at its peak beside weights and pool. MLX keeps freed memory for later steps: from now on twice as much at
    /// most, because steps of other shapes ask for other sizes.
    pub fn workspace(self, heaviest: &Heaviest) -> Result<(Opened, u64), EngineError> {
        let bytes = |n: Result<usize, mlx_rs::error::Exception>| n.map(|n| n as u64).map_err(failed);
        let mut engine = self.into_engine(1, heaviest.context, false)?;
        let before = bytes(mlx_rs::memory::active_memory())?;
        mlx_rs::memory::reset_peak_memory().map_err(failed)?;
        for id in 1..=u64::from(heaviest.depth) {
            engine.launch(&heaviest.step(id))?;
        }
        for _ in 0..heaviest.depth {
            engine.finish()?;
        }
        let took = bytes(mlx_rs::memory::peak_memory())?.saturating_sub(before);
        let opened = engine.into_opened()?;
        mlx::keep_free(2 * took).map_err(failed)?;
        Ok((opened, took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlx::DeviceChoice;
    use crate::mlx_engine::OpenOptions;
    use std::path::Path;

    /// What is worked out bounds what a step takes, and is not of another order.
    #[test]
    fn a_step_takes_no_more_than_was_worked_out() {
        let _turn = crate::mlx::turn();
        for name in ["llama_tied", "qwen3_qknorm", "qwen2_bias"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tiny").join(name);
            for (rows, chunk, context) in [(1, 512, 512), (16, 128, 512), (64, 64, 2048)] {
                let opened = Opened::open(&OpenOptions { path: path.clone(), name: None, device: DeviceChoice::Cpu, dtype: None }).unwrap();
                let worked_out = opened.config().workspace_bytes(rows + chunk, rows, context, true);
                let (opened, took) = opened.workspace(&Heaviest { rows, chunk, context, depth: 2 }).unwrap();
                assert!(took <= worked_out && took * 20 > worked_out, "{name}, {rows} rows, {chunk} of {context}: {took} of {worked_out}");
                assert!(opened.into_engine(4, context, false).is_ok());
            }
        }
    }
}
