//! The state machine: what it holds, and the list of what can happen to it.

use crate::event::{Event, Snapshot, Turn};
use crate::limits::Limits;
use crate::submit::{Refusal, Submit};
use kv::{SeqId, Settled, StepDone, Wants};

/// Sequences and their order. Single-threaded; every call is a few microseconds.
///
/// The caller's loop: after any event, call [`begin_turn`](Self::begin_turn) until it says None. Events may come between
/// `begin_turn` and `settled`: they are noted, and what they change is left out of the step.
///
/// ```text
/// impl Scheduler {
///     pub fn new(limits: Limits) -> Scheduler;
///     /// Takes a sequence, or says why not. `now_us` is any clock that does not go back.
///     pub fn submit(&mut self, submit: Submit, now_us: u64) -> Result<(), Refusal>;
///     /// Forgets a sequence: no event will name it any more. Unknown ids are fine.
///     pub fn cancel(&mut self, seq: SeqId);
///     /// None: nothing to do, or a turn is open, or depth reached.
///     pub fn begin_turn(&mut self, now_us: u64) -> Option<Wants>;
///     pub fn settled(&mut self, settled: Settled, now_us: u64) -> Turn;
///     /// Results in; events out (those of admissions since the last call come first).
///     pub fn step_done(&mut self, done: StepDone, now_us: u64) -> Vec<Event>;
///     /// Events of the turn (Admitted, Resumed, Preempted) that step_done has not handed out yet.
///     pub fn take_events(&mut self) -> Vec<Event>;
///     pub fn model_lost(&mut self, now_us: u64);
///     pub fn drain(&mut self);
///     /// No rows left (after drain: ready to exit).
///     pub fn is_empty(&self) -> bool;
///     pub fn snapshot(&self) -> Snapshot;
///     pub fn check(&self) -> Result<(), kv::Violation>;
/// }
/// ```
pub struct Scheduler {
    limits: Limits,
}
