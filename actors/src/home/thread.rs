//! The engine on a thread of this process: it opens the engine, runs the worker loop, and says how both ended. No MLX object leaves it.

use super::{Ear, End, Home, Saying};
use crossbeam::channel::{Sender, unbounded};
use kv::Step;
use metrics::WorkerCause;
use models::wire::FromWorker;
use models::worker;
use std::sync::Arc;
use std::{io, thread};

/// Starts the thread. It ends when the sender is dropped and its steps are done.
pub(super) fn begin(home: Arc<Home>, blocks: Option<u32>, ear: Ear) -> io::Result<Sender<Step>> {
    let (steps, received) = unbounded();
    let body = move || {
        let Home::Thread(opener) = &*home else { return };
        let engine = match worker::open(|| opener(blocks)) {
            Ok(engine) => engine,
            Err(error) => return ear(Saying::Ended(End::Refused(error))),
        };
        ear(Saying::Opened(engine.info().clone()));
        worker::run(engine, &received, |message| match message {
            FromWorker::Done(done, memory) => ear(Saying::Done(done, memory)),
            FromWorker::Failed(error) => ear(Saying::Ended(End::Died { cause: WorkerCause::Exit, reason: error.to_string() })),
            FromWorker::Opened(_) => unreachable!("the loop opens nothing"),
        });
    };
    thread::Builder::new().name("model".into()).spawn(body)?;
    Ok(steps)
}
