//! `coxswain worker`: the process that has MLX and the model. `serve` starts it, and again when it is lost.

use crate::budget::{self, Sizing};
use crate::{FAILED, Failed, logging};
use actors::{Home, Program};
use models::engine::{Engine, EngineError};
use models::measure::Measured;
use models::mlx_engine::Opened;
use models::wire::frame;
use models::worker::process;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is to be opened, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Not a `PathBuf`, which must be text to be sent.
    path: OsString,
    name: Option<String>,
    sizing: Sizing,
    deterministic: bool,
}

impl Job {
    pub(crate) fn new(path: &Path, name: Option<String>, sizing: Sizing, deterministic: bool) -> Job {
        Job { path: path.into(), name, sizing, deterministic }
    }

    /// In a process of its own, or on a thread of this one.
    pub(crate) fn home(self, in_process: bool) -> Result<Home, String> {
        if in_process {
            return Ok(Home::Thread(Box::new(move |blocks| self.open(blocks))));
        }
        let job = postcard::to_allocvec(&self).map_err(|e| format!("the worker cannot be told what to open: {e}"))?;
        let program = own_program()?;
        let command = move || {
            let mut command = Command::new(&program);
            command.arg0("coxswain").arg("worker");
            command
        };
        Ok(Home::Process(Program { command: Box::new(command), job }))
    }

    /// With so many blocks if it was open before: there may be other memory to share in now, but the rows' tables are made for these.
    fn open(&self, blocks: Option<u32>) -> Result<Box<dyn Engine>, EngineError> {
        let open = self.sizing.open(PathBuf::from(&self.path), self.name.clone());
        // What cannot be is said now, not after minutes of loading.
        budget::measured(&Measured::open(&open)?, &self.sizing, &open.path)?;
        let opened = Opened::open(&open)?;
        tracing::info!("{}", opened.route());
        let (opened, worked_out) = budget::blocks(opened, &self.sizing, &open.path)?;
        let context = self.sizing.context_of(opened.config());
        Ok(Box::new(opened.into_engine(blocks.unwrap_or(worked_out), context, self.deterministic)?) as Box<dyn Engine>)
    }
}

/// This program. On Linux the very file that runs, even if another one lies in its place since: what was upgraded under a running server
/// is not to be mixed with it.
fn own_program() -> Result<PathBuf, String> {
    let linked = PathBuf::from("/proc/self/exe");
    if linked.exists() { Ok(linked) } else { std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}")) }
}

/// Runs until the server is gone or the model is lost.
pub(crate) fn run() -> Result<(), Failed> {
    let socket = process::socket().map_err(|_| "worker is started by `coxswain serve`, not by hand".to_owned())?;
    process::depend_on_the_server();
    logging::start_in_worker()?;
    let failed = |why: String| Failed { code: FAILED, why };
    let open = |job: &[u8], blocks| match postcard::from_bytes::<Job>(job) {
        Ok(job) => job.open(blocks),
        Err(error) => Err(EngineError::Step(format!("what to open cannot be read: {error}"))),
    };
    // Not on the process's first thread: there the C library's allocator works differently, and steps were slower.
    let thread = std::thread::Builder::new().name("model".into()).spawn(move || process::serve(socket, open));
    let served = thread.map_err(|e| format!("the model's thread cannot start: {e}"))?.join();
    match served.unwrap_or(Ok(())) {
        // What is wrong the server has been told.
        Ok(()) => Err(failed(String::new())),
        Err(frame::Error::Closed) => Ok(()),
        Err(error) => Err(failed(error.to_string())),
    }
}
