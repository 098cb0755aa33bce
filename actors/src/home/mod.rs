//! Where the engine lives: in a process of its own, which may die, or on a thread of this one. A life begins with
//! [`Home::begin`], says what happens in it, and last of all how it ended.

mod child;
mod log;
mod thread;

use crossbeam::channel::Sender;
use kv::{Step, StepDone};
use models::engine::{Engine, EngineError, EngineInfo, Memory};
use std::io;
use std::process::Command;
use std::sync::Arc;

/// Opens the model, with so many blocks if it was open before. It runs on the model's own thread.
pub type Opener = Box<dyn Fn(Option<u32>) -> Result<Box<dyn Engine>, EngineError> + Send + Sync>;

/// Where to find an engine, as often as it is lost.
pub enum Home {
    /// Here. A panic of the engine is survived; a signal, an abort or a hang is not.
    Thread(Opener),
    Process(Program),
}

/// A program that runs [`models::worker::process::serve`].
pub struct Program {
    /// Starts it. Its three streams are not the caller's to set.
    pub command: Box<dyn Fn() -> Command + Send + Sync>,
    /// What it is to open.
    pub job: Vec<u8>,
}

/// What a life says, in this order: opened, once; steps done; that it does not end, if it is so; how it ended, once.
#[derive(Debug)]
pub enum Saying {
    Opened(EngineInfo),
    Done(StepDone, Memory),
    /// It is over, but not gone: killed, and not ended yet. Its end is still to come.
    Dying(End),
    Ended(End),
}

/// The last word: nothing is left of the engine, its memory included.
#[derive(Debug)]
pub enum End {
    /// The model cannot be opened.
    Refused(EngineError),
    Died {
        cause: metrics::WorkerCause,
        reason: String,
    },
}

/// Where a life's words go.
pub type Ear = Arc<dyn Fn(Saying) + Send + Sync>;

/// A life from outside. Dropping it ends it, if that can be.
pub enum Life {
    Thread(Sender<Step>),
    Process(child::Process),
}

impl Home {
    /// Begins a life. An error means that there is none, and nothing will be said.
    pub fn begin(self: &Arc<Self>, blocks: Option<u32>, ear: Ear) -> io::Result<Life> {
        match &**self {
            Home::Thread(_) => thread::begin(Arc::clone(self), blocks, ear).map(Life::Thread),
            Home::Process(program) => child::Process::begin(program, blocks, ear).map(Life::Process),
        }
    }

    pub fn mode(&self) -> &'static str {
        match self {
            Home::Thread(_) => "in-process",
            Home::Process(_) => "process",
        }
    }
}

impl Life {
    /// Sends a step. One that the engine will never see is no error here: the life's end is on its way.
    pub fn step(&self, step: Step) {
        match self {
            Life::Thread(steps) => drop(steps.send(step)),
            Life::Process(process) => process.step(step),
        }
    }

    /// Ends it by force, so that its last word comes. False: a thread cannot be ended.
    pub fn kill(&self) -> bool {
        match self {
            Life::Thread(_) => false,
            Life::Process(process) => {
                process.kill();
                true
            }
        }
    }

    /// The process's id.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Life::Thread(_) => None,
            Life::Process(process) => Some(process.pid()),
        }
    }
}
