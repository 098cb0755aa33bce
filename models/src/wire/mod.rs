//! What server and worker process say to each other over their socket: these messages, each in a [`frame`].

pub mod frame;

use crate::engine::{EngineError, EngineInfo, Memory};
use kv::{Step, StepDone};
use serde::{Deserialize, Serialize};

/// Server to worker. The first is [`ToWorker::Open`], and there is no second of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// Open the model that `job` describes: bytes that whoever starts both ends understands. With `blocks` its pool has that many, and
    /// else as many as there is memory for.
    Open {
        job: Vec<u8>,
        blocks: Option<u32>,
    },
    Step(Step),
}

/// Worker to server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// Steps may come.
    Opened(EngineInfo),
    /// The oldest step that was sent.
    Done(StepDone, Memory),
    /// The last word: the engine is of no more use, or there is none.
    Failed(EngineError),
}
