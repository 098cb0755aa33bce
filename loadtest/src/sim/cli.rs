//! The command `sim`: its arguments, its progress, and what it says at the end.

use super::many::{self, Found};
use super::seen::Seen;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Runs the scheduler and the KV pool with a synthetic model on a virtual clock, under faults, and checks every invariant after
/// every event.
///
/// The same seed gives the same run. A seed that fails is cut down to the shortest list of events that still fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub struct Args {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many seeds to run, from the first on
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// Virtual hours of each seed
    #[arg(long, default_value_t = HOURS, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub hours: u32,
}

const HOURS: u32 = 1;

/// What came of it; its text is for people, and has several lines if a seed failed.
#[derive(Debug)]
pub struct Verdict {
    args: Args,
    seen: Seen,
    found: Option<Found>,
    took: Duration,
}

impl Verdict {
    /// Nothing was broken.
    pub fn ok(&self) -> bool {
        self.found.is_none()
    }
}

/// Runs the seeds. Progress goes to standard error; panics of the core are part of the verdict.
pub fn run(args: &Args) -> Verdict {
    let began = Instant::now();
    let (seen, found) = many::run(args.seed, args.seeds, args.hours, |done| progress(done, args.seeds));
    Verdict { args: *args, seen, found, took: began.elapsed() }
}

/// One line, rewritten on a terminal; in a log, one for every tenth. A single seed needs none.
fn progress(done: u64, of: u64) {
    let mut to = io::stderr();
    let (terminal, part) = (to.is_terminal(), if to.is_terminal() { (of / 1000).max(1) } else { of.div_ceil(10) });
    if of == 1 || (!done.is_multiple_of(part) && done != of) {
        return;
    }
    let end = if terminal && done < of { '\r' } else { '\n' };
    // Whoever closed standard error does not want to know.
    let _ = write!(to, "sim: {done} of {of} seeds{end}");
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(found) = &self.found {
            return self.failed(f, found);
        }
        let Seen { events, tokens, preemptions, cancels, deaths, virtual_us, .. } = &self.seen;
        let hours = *virtual_us as f64 / 3.6e9;
        writeln!(
            f,
            "sim: {} seeds, {events} events, {tokens} tokens, {preemptions} preemptions, {cancels} cancels, {deaths} deaths of the model, \
             {hours:.1} virtual hours, {:.1} s: nothing broken",
            self.args.seeds,
            self.took.as_secs_f64()
        )
    }
}

impl Verdict {
    fn failed(&self, f: &mut fmt::Formatter<'_>, found: &Found) -> fmt::Result {
        let Found { seed, acts, script, failure } = found;
        writeln!(f, "sim: seed {seed} fails: {}", failure.what)?;
        writeln!(f, "The seed had made {acts} events; {} are enough:", script.acts.len())?;
        for act in &script.acts {
            writeln!(f, "{act}")?;
        }
        writeln!(f, "with {:?}", script.shape)?;
        let hours = if self.args.hours == HOURS { String::new() } else { format!(" --hours {}", self.args.hours) };
        writeln!(f, "Again: sim --seed {seed}{hours}")
    }
}
