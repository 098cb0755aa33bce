//! What runs steps: one trait, so that the worker loop does not care whether MLX or the synthetic model is behind it.

use kv::{Step, StepDone};
use serde::{Deserialize, Serialize, Serializer};
use std::path::{Path, PathBuf};

/// Runs steps in the order of launching, on the one thread that owns it.
pub trait Engine {
    fn info(&self) -> &EngineInfo;

    /// Starts a step and returns without waiting for its tokens. `Input::FromPrevious` means the step launched before.
    fn launch(&mut self, step: &Step) -> Result<(), EngineError>;

    /// Waits for the oldest launched step. Called once for each launch.
    fn finish(&mut self) -> Result<StepDone, EngineError>;

    /// Bytes that the device's allocator holds.
    fn memory(&self) -> Memory;
}

/// What the rest of the service needs to know of a loaded model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineInfo {
    /// The id that `/v1/models` shows.
    pub name: String,
    /// Positions a sequence may have, prompt and answer together.
    pub context: u32,
    pub vocab: u32,
    /// Blocks in the pool: the byte budget over `block_bytes`.
    pub blocks: u32,
    pub block_bytes: u64,
    /// Positions that a query sees in the layer that sees most, if every layer has a window: a row's table may have block 0 for what
    /// lies behind.
    pub window: Option<u32>,
    /// Weights in memory.
    pub weight_bytes: u64,
    pub dtype: String,
    pub device: String,
    /// Of the files that the model was read from. Another one under the same name is another model.
    pub files: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    pub active: u64,
    pub cache: u64,
    pub peak: u64,
}

/// The engine is of no more use after either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum EngineError {
    /// The model cannot be loaded. The message names file and tensor or field, and what is allowed.
    #[error("{}: {reason}", file.display())]
    Load {
        #[serde(serialize_with = "as_text")]
        file: PathBuf,
        reason: String,
    },
    /// A step failed as a whole.
    #[error("step failed: {0}")]
    Step(String),
}

/// A path as people read it. That it need not be text must not keep an error from being told.
fn as_text<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}
