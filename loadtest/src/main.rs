//! The load test as a program of its own, for a client machine that has no use for the service: `loadtest URL [options]`.

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "loadtest", version)]
struct Command {
    #[command(flatten)]
    args: loadtest::Args,
}

fn failed(why: &str) -> ExitCode {
    // Whoever reads it may be gone.
    let _ = writeln!(std::io::stderr(), "loadtest: {why}");
    ExitCode::from(2)
}

fn main() -> ExitCode {
    match loadtest::run(&Command::parse().args) {
        Ok(report) => match write!(std::io::stdout(), "{report}") {
            Ok(()) if report.ok() => ExitCode::SUCCESS,
            Ok(()) => ExitCode::FAILURE,
            Err(error) => failed(&format!("cannot write to standard output: {error}")),
        },
        Err(error) => failed(&error.to_string()),
    }
}
