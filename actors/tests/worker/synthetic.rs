//! The worker: the synthetic model in the real worker process's loop, and what can go wrong with it.

use crate::house;
use crate::stuck::may_be_debugged;
use actors::{Home, Program};
use kv::{Step, StepDone};
use models::engine::{Engine, EngineError, EngineInfo, Memory};
use models::synthetic::Synthetic;
use models::worker::process;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a worker does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wrong {
    Nothing,
    /// The files of the model are at fault.
    Refuses,
    DiesOnLoad,
    HangsOnLoad,
    /// Its engine fails, or panics, at this step of its life.
    Fails(u32),
    Panics(u32),
    /// It exits at this step.
    Exits(u32),
    /// At this step it writes this to the server, between frames.
    Writes(u32, Noise),
    /// Its results of this step are of this kind.
    Answers(u32, Nonsense),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Noise {
    Text,
    OtherVersion,
    HugeLength,
    NoMessage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Nonsense {
    OtherStep,
    OtherRow,
    NoResults,
    TokenBeyondAll,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) blocks: u32,
    pub(crate) wrong: Wrong,
    /// Only so many lives go wrong: each adds a byte to this file.
    pub(crate) times: u64,
    pub(crate) tally: PathBuf,
}

impl Job {
    pub(crate) fn good(blocks: u32) -> Job {
        Job { blocks, wrong: Wrong::Nothing, times: 0, tally: PathBuf::new() }
    }

    pub(crate) fn home(&self) -> Home {
        let command = || {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.arg("worker");
            command
        };
        Home::Process(Program { command: Box::new(command), job: serde_json::to_vec(self).unwrap() })
    }
}

/// The worker process.
pub(crate) fn run() {
    process::depend_on_the_server();
    may_be_debugged();
    process::serve(process::socket().unwrap(), |job, blocks| {
        let job: Job = serde_json::from_slice(job).unwrap();
        let wrong = if goes_wrong(&job.tally, job.times) { job.wrong } else { Wrong::Nothing };
        match wrong {
            Wrong::Refuses => return Err(EngineError::Load { file: "weights".into(), reason: "are missing".into() }),
            Wrong::DiesOnLoad => std::process::abort(),
            Wrong::HangsOnLoad => loop {
                std::thread::park();
            },
            _ => {}
        }
        let inner = Synthetic::new(house::shape(blocks.unwrap_or(job.blocks)));
        Ok(Box::new(Faulty { inner, wrong, steps: 0 }))
    })
    .unwrap();
}

fn goes_wrong(tally: &Path, times: u64) -> bool {
    let before = std::fs::metadata(tally).map_or(0, |file| file.len());
    if before >= times {
        return false;
    }
    OpenOptions::new().create(true).append(true).open(tally).unwrap().write_all(b"x").unwrap();
    true
}

struct Faulty {
    inner: Synthetic,
    wrong: Wrong,
    /// Done in this life.
    steps: u32,
}

impl Engine for Faulty {
    fn info(&self) -> &EngineInfo {
        self.inner.info()
    }

    fn launch(&mut self, step: &Step) -> Result<(), EngineError> {
        self.inner.launch(step)
    }

    fn finish(&mut self) -> Result<StepDone, EngineError> {
        let mut done = self.inner.finish()?;
        self.steps += 1;
        match self.wrong {
            Wrong::Fails(at) if at == self.steps => return Err(EngineError::Step("told to fail".into())),
            Wrong::Panics(at) if at == self.steps => panic!("told to panic"),
            Wrong::Exits(at) if at == self.steps => std::process::exit(7),
            Wrong::Writes(at, noise) if at == self.steps => write(noise),
            Wrong::Answers(at, nonsense) if at == self.steps => spoil(&mut done, nonsense),
            _ => {}
        }
        Ok(done)
    }

    fn memory(&self) -> Memory {
        self.inner.memory()
    }
}

/// Past the frames' writer, as a library would that takes descriptor 0 for its own.
fn write(noise: Noise) {
    let bytes: &[u8] = match noise {
        Noise::Text => b"some library's greeting\n",
        Noise::OtherVersion => b"cx\x09\x00\x01\x00\x00\x00\x00",
        Noise::HugeLength => b"cx\x01\x00\xff\xff\xff\xff",
        Noise::NoMessage => b"cx\x01\x00\x02\x00\x00\x00\xff\xff",
    };
    // SAFETY: the descriptor is the process's socket, and is not closed here.
    let mut socket = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(0) });
    socket.write_all(bytes).unwrap();
}

fn spoil(done: &mut StepDone, nonsense: Nonsense) {
    match nonsense {
        Nonsense::OtherStep => done.id.0 += 1,
        Nonsense::OtherRow => done.results.iter_mut().for_each(|result| result.seq.0 += 1),
        Nonsense::NoResults => done.results.clear(),
        Nonsense::TokenBeyondAll => done.results.iter_mut().for_each(|result| result.token = Ok(u32::MAX)),
    }
}
