//! What a step costs on top of the model when the model is in a process of its own: the same steps through an engine that does nothing,
//! on a thread and in a worker process. `cargo bench -p actors --bench worker`.
//!
//! A step has 64 rows that decode at 512 positions, or at 4,096. `one`: from sending a step to its result, nothing else in flight.
//! `two`: per step, with a second one in flight, as serving does.

// A benchmark is about a clock.
#![allow(clippy::unwrap_used)]

use actors::home::{Home, Life, Program, Saying};
use criterion::{Criterion, criterion_group};
use crossbeam::channel::Receiver;
use kv::{BlockId, Draw, Input, RowResult, Sampling, SeqId, Step, StepDone, StepId, StepRow};
use models::engine::{Engine, EngineError, EngineInfo, Memory};
use models::worker::process;
use std::collections::VecDeque;
use std::process::Command;
use std::sync::Arc;

const ROWS: u64 = 64;

/// Draws token 7 for every row at once.
struct Idle {
    info: EngineInfo,
    launched: VecDeque<StepDone>,
}

impl Idle {
    fn new() -> Idle {
        let text = String::new;
        let info = EngineInfo {
            name: text(),
            context: 8192,
            vocab: 1000,
            blocks: 10_000,
            block_bytes: 1,
            window: None,
            weight_bytes: 0,
            dtype: text(),
            device: text(),
            files: 0,
        };
        Idle { info, launched: VecDeque::new() }
    }
}

impl Engine for Idle {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn launch(&mut self, step: &Step) -> Result<(), EngineError> {
        let results = step.rows.iter().map(|row| RowResult::new(row.seq, Ok(7))).collect();
        self.launched.push_back(StepDone { id: step.id, results, micros: 0 });
        Ok(())
    }

    fn finish(&mut self) -> Result<StepDone, EngineError> {
        Ok(self.launched.pop_front().unwrap())
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}

fn step(id: u64, positions: u32) -> Step {
    let sampling = Sampling { temperature: 0.7, top_p: 0.9, top_k: 0, min_p: 0.0, seed: 1 << 50 };
    let row = |i: u64| StepRow {
        seq: SeqId(1000 + i),
        input: Input::FromPrevious,
        start: positions,
        table: (0..=positions / kv::BLOCK_TOKENS).map(|block| BlockId(1 + (i as u32 * 131 + block * 64) % 9999)).collect(),
        draw: Some(Draw::new(sampling.clone(), positions)),
    };
    Step { id: StepId(id), copies: Vec::new(), rows: (0..ROWS).map(row).collect() }
}

fn begin(home: Home) -> (Life, Receiver<Saying>) {
    let (to, said) = crossbeam::channel::unbounded();
    let life = Arc::new(home).begin(None, Arc::new(move |saying| drop(to.send(saying)))).unwrap();
    assert!(matches!(said.recv().unwrap(), Saying::Opened(_)));
    (life, said)
}

fn steps(c: &mut Criterion) {
    let command = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("worker");
        command
    };
    for (place, process) in [("thread", false), ("process", true)] {
        let home = if process {
            Home::Process(Program { command: Box::new(command), job: Vec::new() })
        } else {
            Home::Thread(Box::new(|_| Ok(Box::new(Idle::new()))))
        };
        let (life, said) = begin(home);
        let done = || assert!(matches!(said.recv().unwrap(), Saying::Done(_, _)));
        let mut id = 0;
        for positions in [512, 4096] {
            let mut next = || {
                id += 1;
                step(id, positions)
            };
            for (flying, ahead) in [("one", 0), ("two", 1)] {
                (0..ahead).for_each(|_| life.step(next()));
                c.bench_function(&format!("{positions}/{place}/{flying}"), |b| {
                    b.iter_batched(
                        &mut next,
                        |step| {
                            life.step(step);
                            done();
                        },
                        criterion::BatchSize::SmallInput,
                    );
                });
                (0..ahead).for_each(|_| done());
            }
        }
    }
}

criterion_group!(benches, steps);

fn main() {
    if std::env::args().nth(1).as_deref() == Some("worker") {
        process::depend_on_the_server();
        return process::serve(process::socket().unwrap(), |_, _| Ok(Box::new(Idle::new()))).unwrap();
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
