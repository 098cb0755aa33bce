//! The simulator as a program of its own: it needs neither MLX nor the service.

use clap::Parser;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "sim", version)]
struct Command {
    #[command(flatten)]
    args: loadtest::sim::Args,
}

fn main() -> ExitCode {
    let verdict = loadtest::sim::run(&Command::parse().args);
    print!("{verdict}");
    if verdict.ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
