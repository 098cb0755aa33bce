//! The model's own thread: it opens the engine, runs the worker loop, and says how both ended. No MLX object leaves it.

use crate::start::Opener;
use crossbeam::channel::Receiver;
use kv::Step;
use models::engine::{EngineError, EngineInfo};
use models::worker::{self, FromWorker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

/// Where the worker loop's messages go.
pub(crate) type Out = Box<dyn Fn(FromWorker)>;

/// Starts the thread. `opened` is called on it once with the outcome of opening; it returns where the loop's messages go, or
/// None if nobody wants the engine any more. A panic of the engine is heard as a failed step.
pub(crate) fn spawn(
    opener: Arc<Opener>,
    steps: Receiver<Step>,
    opened: impl FnOnce(Result<EngineInfo, EngineError>) -> Option<Out> + Send + 'static,
) -> Result<(), EngineError> {
    let body = move || {
        let engine = match catch_unwind(AssertUnwindSafe(|| opener())) {
            Ok(engine) => engine,
            Err(panic) => Err(EngineError::Step(panicked("opening the model", &*panic))),
        };
        let engine = match engine {
            Ok(engine) => engine,
            Err(error) => {
                opened(Err(error));
                return;
            }
        };
        let Some(out) = opened(Ok(engine.info().clone())) else {
            return;
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| worker::run(engine, steps, &out))) {
            out(FromWorker::Failed(EngineError::Step(panicked("running a step", &*panic))));
        }
    };
    let thread = thread::Builder::new().name("model".into()).spawn(body);
    thread.map(drop).map_err(|error| EngineError::Step(format!("the model's thread cannot start: {error}")))
}

fn panicked(doing: &str, panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked while {doing}: {}", text.unwrap_or("no message"))
}
