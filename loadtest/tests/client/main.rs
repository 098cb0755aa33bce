//! The whole load test against real servers on loopback, as a program would run it.
#![allow(clippy::unwrap_used)]

mod closed;
mod many;
mod open;
mod server;
mod wire;

use clap::Parser;
use loadtest::report::Run;
use loadtest::{Args, Report};

#[derive(Parser, Debug)]
struct Command {
    #[command(flatten)]
    args: Args,
}

fn args(url: &str, more: &[&str]) -> Args {
    let base = ["loadtest", url, "--model", "tiny", "--timeout", "60"];
    Command::try_parse_from(base.iter().chain(more)).unwrap_or_else(|e| panic!("{e}")).args
}

fn report(url: &str, more: &[&str]) -> Report {
    loadtest::run(&args(url, more)).unwrap()
}

/// The only run.
fn run_with(args: &Args) -> Run {
    let mut runs = loadtest::run(args).unwrap().runs;
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

fn run(url: &str, more: &[&str]) -> Run {
    run_with(&args(url, more))
}
