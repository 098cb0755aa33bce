//! The load test as a program of its own, for a client machine that has no use for the service: `loadtest URL [options]`.

use clap::Parser;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "loadtest", version)]
struct Command {
    #[command(flatten)]
    args: loadtest::Args,
}

fn main() -> ExitCode {
    match loadtest::run(&Command::parse().args) {
        Ok(report) => {
            print!("{report}");
            if report.ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("loadtest: {error}");
            ExitCode::from(2)
        }
    }
}
