//! One script, tried: to its end, or to the first thing that is wrong, a panic of the core included.

use super::script::Script;
use super::seam::Seam;
use super::seen::Seen;
use super::world::World;
use kv::{Invariant, Violation};
use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) what: Broken,
    /// Acts that had happened by then.
    pub(crate) acts: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    Invariant(Violation),
    /// The core's own assertions.
    Panic(String),
}

impl Broken {
    /// Whether two failures are of one kind: shrinking must not slip from one bug to another.
    pub(crate) fn kind(&self) -> Option<Invariant> {
        match self {
            Broken::Invariant(violation) => Some(violation.invariant),
            Broken::Panic(_) => None,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Invariant(violation) => violation.fmt(f),
            Broken::Panic(message) => write!(f, "panic: {message}"),
        }
    }
}

pub(crate) fn run(script: &Script, seam: &mut impl Seam) -> Result<Seen, Failure> {
    let acts = Cell::new(0);
    let tried = quietly(|| {
        catch_unwind(AssertUnwindSafe(|| {
            let mut world = World::new(script, seam);
            world.run(|index| acts.set(index + 1)).map(|()| world.seen)
        }))
    });
    let what = match tried {
        Ok(Ok(seen)) => return Ok(seen),
        Ok(Err(violation)) => Broken::Invariant(violation),
        Err(panic) => Broken::Panic(message(panic.as_ref())),
    };
    Err(Failure { what, acts: acts.get() })
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with this thread's panics unprinted: they are caught and reported once, not once for every list that is tried.
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                print(info);
            }
        }));
    });
    QUIET.set(true);
    let done = work();
    QUIET.set(false);
    done
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("of no message").to_owned()
}
