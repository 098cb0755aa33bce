//! The worker loop: the one thread that owns the engine launches steps as they come and finishes them in order. [`process`] is what is
//! around it where it has a process to itself.

pub mod process;

use crate::engine::{Engine, EngineError};
use crate::wire::FromWorker;
use crossbeam::channel::Receiver;
use kv::Step;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Steps at the device at once: one that runs, one that waits behind it.
const IN_FLIGHT_MAX: u32 = 2;

/// How long the loop waits for the next step while one is still running. When a step is done the planner answers in tens of
/// microseconds, so without this wait the loop would block on the running step and leave the device idle after it. The
/// device computes meanwhile; nothing is lost but this much latency, and only when no further step comes.
const NEXT_STEP_WAIT: Duration = Duration::from_micros(300);

/// Opens an engine. A panic on the way is an error like others.
pub fn open(opener: impl FnOnce() -> Result<Box<dyn Engine>, EngineError>) -> Result<Box<dyn Engine>, EngineError> {
    catch_unwind(AssertUnwindSafe(opener)).unwrap_or_else(|panic| Err(EngineError::Step(panicked("opening the model", &*panic))))
}

/// Runs steps until `steps` is disconnected and everything launched is finished, or until the engine fails or panics, which is the last
/// word: the engine is dropped by then. `out` is called in the order of launching.
pub fn run(mut engine: Box<dyn Engine>, steps: &Receiver<Step>, out: impl Fn(FromWorker)) {
    let served = catch_unwind(AssertUnwindSafe(|| serve(engine.as_mut(), steps, &out)));
    let failed = match served {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(panic) => EngineError::Step(panicked("running a step", &*panic)),
    };
    // The engine goes first: whoever hears of the failure may open another one, and memory may not hold both.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(engine)));
    if let Err(panic) = dropped {
        return out(FromWorker::Failed(EngineError::Step(panicked("ending after a failed step", &*panic))));
    }
    out(FromWorker::Failed(failed));
}

fn panicked(doing: &str, panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked while {doing}: {}", text.unwrap_or("no message"))
}

fn serve(engine: &mut dyn Engine, steps: &Receiver<Step>, out: &impl Fn(FromWorker)) -> Result<(), EngineError> {
    let mut in_flight = 0;
    let mut just_done = false;
    loop {
        let next = match in_flight {
            0 => match steps.recv() {
                Ok(step) => Some(step),
                Err(_) => return Ok(()),
            },
            IN_FLIGHT_MAX.. => None,
            _ if just_done => steps.recv_timeout(NEXT_STEP_WAIT).ok(),
            // Empty or disconnected: either way there is a step to finish first.
            _ => steps.try_recv().ok(),
        };
        just_done = next.is_none();
        match next {
            Some(step) => {
                engine.launch(&step)?;
                in_flight += 1;
            }
            None => {
                let done = engine.finish()?;
                in_flight -= 1;
                out(FromWorker::Done(done, engine.memory()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EngineInfo, Memory};
    use crate::synthetic::{Shape, Synthetic};
    use kv::{BlockId, Draw, Input, RowResult, Sampling, SeqId, StepDone, StepId, StepRow};
    use std::sync::{Arc, Mutex};

    /// Notes how many steps were in flight at each call, and fails where told.
    struct Noting {
        inner: Synthetic,
        in_flight: u32,
        calls: Arc<Mutex<Vec<(char, u32)>>>,
        fails_at: Option<StepId>,
    }

    impl Engine for Noting {
        fn info(&self) -> &EngineInfo {
            self.inner.info()
        }
        fn launch(&mut self, step: &Step) -> Result<(), EngineError> {
            if self.fails_at == Some(step.id) {
                return Err(EngineError::Step("told to".into()));
            }
            self.in_flight += 1;
            self.calls.lock().unwrap().push(('l', self.in_flight));
            self.inner.launch(step)
        }
        fn finish(&mut self) -> Result<StepDone, EngineError> {
            self.calls.lock().unwrap().push(('f', self.in_flight));
            self.in_flight -= 1;
            self.inner.finish()
        }
        fn memory(&self) -> Memory {
            self.inner.memory()
        }
    }

    fn greedy() -> Sampling {
        Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0 }
    }

    /// Decode steps of one row, each fed by the one before.
    fn chain(steps: u64) -> Vec<Step> {
        let row = |i: u64| StepRow {
            seq: SeqId(1),
            input: if i == 0 { Input::Tokens(vec![5, 6]) } else { Input::FromPrevious },
            start: if i == 0 { 0 } else { 1 + i as u32 },
            table: vec![BlockId(1)],
            draw: Some(Draw::new(greedy(), i as u32)),
        };
        (0..steps).map(|i| Step { id: StepId(i + 1), copies: vec![], rows: vec![row(i)] }).collect()
    }

    fn run_all(steps: Vec<Step>, fails_at: Option<StepId>) -> (Vec<FromWorker>, Vec<(char, u32)>) {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let engine = Noting { inner: Synthetic::new(Shape::default()), in_flight: 0, calls: calls.clone(), fails_at };
        let (tx, rx) = crossbeam::channel::unbounded();
        for step in steps {
            tx.send(step).unwrap();
        }
        drop(tx);
        let heard = std::cell::RefCell::new(Vec::new());
        run(Box::new(engine), &rx, |m| heard.borrow_mut().push(m));
        let calls = calls.lock().unwrap().clone();
        (heard.into_inner(), calls)
    }

    #[test]
    fn keeps_two_in_flight_and_answers_in_order() {
        let (heard, calls) = run_all(chain(4), None);
        assert_eq!(calls, [('l', 1), ('l', 2), ('f', 2), ('l', 2), ('f', 2), ('l', 2), ('f', 2), ('f', 1)]);
        let mut prefix = vec![5, 6];
        for (i, message) in heard.iter().enumerate() {
            let FromWorker::Done(done, _) = message else { panic!("{message:?}") };
            let draw = Draw::new(greedy(), i as u32);
            let token = crate::synthetic::next(&prefix, &draw, Shape::default().vocab);
            assert_eq!((done.id, &done.results), (StepId(i as u64 + 1), &vec![RowResult::new(SeqId(1), Ok(token))]));
            prefix.push(token);
        }
        assert_eq!(heard.len(), 4);
    }

    #[test]
    fn a_failure_is_the_last_word() {
        let (heard, _) = run_all(chain(4), Some(StepId(3)));
        let failed = FromWorker::Failed(EngineError::Step("told to".into()));
        assert_eq!(heard.last(), Some(&failed));
        assert!(heard.iter().filter(|m| **m == failed).count() == 1 && heard.len() <= 3, "{heard:?}");
    }
}
