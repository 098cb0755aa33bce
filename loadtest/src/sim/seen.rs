//! What was met, counted. A simulator that never meets the rare things tests nothing, and a test looks at these numbers.

use kv::{Input, Step};
use scheduler::{Event, Reason};
use std::ops::AddAssign;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub(crate) struct Seen {
            $($(#[$doc])* pub(crate) $name: u64),*
        }

        impl Seen {
            #[cfg(test)]
            pub(crate) fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }

        impl AddAssign for Seen {
            fn add_assign(&mut self, other: Seen) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Things that happened, from outside and inside.
    events,
    accepted,
    refused,
    /// Tokens delivered.
    tokens,
    preemptions,
    cancels,
    deaths,
    virtual_us,
    resumed,
    /// Rows that found some of their prompt, and some of what they had before, in the prefix index.
    cached,
    resumed_cached,
    restarted,
    /// Blocks copied on write.
    copies,
    /// Tokens that a step took from the one before it on the device.
    from_previous,
    faults,
    stops,
    /// Rows paused because their clients did not read.
    pauses,
    /// Tokens that lay unread in a slow client's mailbox.
    unread,
    /// Messages that came while a list was with the pool.
    meanwhile,
    /// Steps launched while another was in flight.
    behind,
    /// Rows of steps that had given up blocks behind their window, and those that were longer than the pool.
    given_up,
    longer,
    /// Admissions at which other keys had rows waiting too.
    contested,
    /// Waiting keys that were served so unequally that it came to a quarter of what is allowed, or more.
    apart,
}

impl Seen {
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::Admitted { cached, .. } => self.cached += u64::from(*cached > 0),
            Event::Resumed { cached, .. } => {
                self.resumed += 1;
                self.resumed_cached += u64::from(*cached > 0);
            }
            Event::Preempted { .. } => self.preemptions += 1,
            Event::Token { .. } => self.tokens += 1,
            Event::Finished { reason, counts, .. } => {
                self.restarted += u64::from(counts.restarts > 0);
                self.faults += u64::from(matches!(reason, Reason::Fault(_)));
                self.stops += u64::from(*reason == Reason::Stop);
            }
        }
    }

    pub(crate) fn step(&mut self, step: &Step, pool_blocks: u32) {
        self.copies += step.copies.len() as u64;
        self.from_previous += step.rows.iter().filter(|row| row.input == Input::FromPrevious).count() as u64;
        self.given_up += step.rows.iter().filter(|row| row.table[0].0 == 0).count() as u64;
        self.longer += step.rows.iter().filter(|row| row.table.len() as u32 > pool_blocks).count() as u64;
    }
}
