//! Where tests cut in between the core's parts to plant a bug. The simulation itself goes straight through.

use kv::{Pool, Settled, Wants};
use scheduler::Event;

/// What passes between scheduler, pool and clients.
pub(crate) trait Seam {
    fn settle(&mut self, pool: &mut Pool, wants: Wants) -> Settled;
    fn events(&mut self, events: Vec<Event>) -> Vec<Event>;
}

/// Nothing in between.
pub(crate) struct Straight;

impl Seam for Straight {
    fn settle(&mut self, pool: &mut Pool, wants: Wants) -> Settled {
        pool.settle(wants)
    }

    fn events(&mut self, events: Vec<Event>) -> Vec<Event> {
        events
    }
}
