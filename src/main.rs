//! The command line: parses, composes, and nothing else.

mod budget;
mod bytes;
mod descriptors;
mod fit;
mod logging;
mod model;
mod serve;
mod worker;

use clap::{Parser, Subcommand, ValueEnum};
use models::mlx::DeviceChoice;
use models::weights::Float;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Continuous batching for a team's own machine: one language model, many people at once.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a model over HTTP
    Serve(serve::Args),
    /// Hold models against recorded logits of the oracle: folders with config.json, model.safetensors, golden.safetensors
    Check(CheckArgs),
    /// Put load on an OpenAI-compatible server and report what its clients felt
    Loadtest(Box<loadtest::Args>),
    /// Say what a model would take of this machine's memory and how many rows would fit, without loading it
    Fit(fit::Args),
    Sim(loadtest::sim::Args),
    /// Make a key: prints the lines that the keys file of `serve --keys` needs for it, and the new secret to standard error
    Key {
        /// Whose key it is: a name in log lines and in metrics
        name: String,
    },
    /// Run the model for `serve`, which starts this itself
    #[command(hide = true)]
    Worker,
}

#[derive(clap::Args)]
struct CheckArgs {
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    #[command(flatten)]
    placing: Placing,
}

/// Where a model runs, and in what.
#[derive(clap::Args, Debug, Clone, Copy, Serialize, Deserialize)]
struct Placing {
    /// Where the model runs; auto takes the GPU where MLX has one
    #[arg(long, value_enum, default_value_t = Device::Auto)]
    device: Device,
    /// Make the weights dense in this type; auto is f32 on the CPU, and as stored on a GPU
    #[arg(long, value_enum, default_value_t = Dtype::Auto)]
    dtype: Dtype,
}

#[derive(Debug, Clone, Copy, ValueEnum, Serialize, Deserialize)]
enum Device {
    Auto,
    Cpu,
    Gpu,
}

#[derive(Debug, Clone, Copy, ValueEnum, Serialize, Deserialize)]
enum Dtype {
    Auto,
    F32,
    F16,
    Bf16,
}

impl Placing {
    fn device(self) -> DeviceChoice {
        match self.device {
            Device::Auto => DeviceChoice::Auto,
            Device::Cpu => DeviceChoice::Cpu,
            Device::Gpu => DeviceChoice::Gpu,
        }
    }

    fn dtype(self) -> Option<Float> {
        match self.dtype {
            Dtype::Auto => None,
            Dtype::F32 => Some(Float::F32),
            Dtype::F16 => Some(Float::F16),
            Dtype::Bf16 => Some(Float::BF16),
        }
    }
}

/// What went wrong with what was asked for, as opposed to what was found wrong: a check or a load that failed is 1.
const UNUSABLE: u8 = 2;

/// What was found wrong, or went wrong.
const FAILED: u8 = 1;

/// How a process that does not return from `main` ends, and what it says of that, if anything.
struct Failed {
    code: u8,
    why: String,
}

impl From<String> for Failed {
    fn from(why: String) -> Failed {
        Failed { code: UNUSABLE, why }
    }
}

fn main() -> ExitCode {
    // SAFETY: no other thread runs yet.
    unsafe { models::mlx::settle_environment() };
    let command = Cli::parse().command;
    if !matches!(command, Command::Serve(_) | Command::Worker) {
        end_with_the_reader();
    }
    match command {
        Command::Serve(args) => leave(serve::run(&args)),
        Command::Worker => leave(worker::run()),
        Command::Check(args) => ended(check(&args)),
        Command::Loadtest(args) => ended(load(&args)),
        Command::Fit(args) => ended(fit::run(&args).and_then(|text| say(&text)).map(|()| ExitCode::SUCCESS)),
        Command::Key { name } => ended(key(&name)),
        Command::Sim(args) => ended(simulate(&args)),
    }
}

/// Ends the process here and now. Returning from `main` would run the destructors that MLX has registered for the end of the
/// process while the model's thread is still in a step, or frees the model: the two together corrupt the heap.
fn leave(result: Result<(), Failed>) -> ! {
    let code = match result {
        Ok(()) => 0,
        Err(Failed { code, why }) => {
            if !why.is_empty() {
                // Whoever reads it may be gone.
                let _ = writeln!(std::io::stderr(), "coxswain: {why}");
            }
            code
        }
    };
    // SAFETY: no destructor is missed. Standard error has no buffer, the last spans are sent, and nothing is open for writing.
    unsafe { libc::_exit(code.into()) }
}

/// Whoever reads what a command prints may stop reading, as `head` does: the command ends, too, and that is no failure. A server goes on.
fn end_with_the_reader() {
    // SAFETY: no other thread runs yet, and nothing of this process handles the signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

fn ended(result: Result<ExitCode, String>) -> ExitCode {
    result.unwrap_or_else(|why| {
        // Whoever reads it may be gone.
        let _ = writeln!(std::io::stderr(), "coxswain: {why}");
        ExitCode::from(UNUSABLE)
    })
}

/// To standard output, which may be a file on a disk that is full.
fn say(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| format!("cannot write to standard output: {e}"))
}

fn check(args: &CheckArgs) -> Result<ExitCode, String> {
    let mut worst = 0;
    for dir in &args.dirs {
        match models::check::check(dir, args.placing.device(), args.placing.dtype()) {
            Ok(lines) => {
                for line in lines {
                    worst = worst.max(u8::from(!line.ok()));
                    say(&format!("{}: {line}\n", dir.display()))?;
                }
            }
            // The other folders are held against their recordings all the same.
            Err(error) => {
                worst = UNUSABLE;
                let _ = writeln!(std::io::stderr(), "coxswain: {error}");
            }
        }
    }
    Ok(ExitCode::from(worst))
}

fn load(args: &loadtest::Args) -> Result<ExitCode, String> {
    let report = loadtest::run(args).map_err(|e| e.to_string())?;
    say(&report.to_string())?;
    Ok(if report.ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn key(name: &str) -> Result<ExitCode, String> {
    let (secret, entry) = api::fresh_key(name)?;
    // First what the secret is of no use without.
    say(&format!("{entry}\n"))?;
    // Not among the lines that go to the file.
    writeln!(std::io::stderr(), "the secret, which is kept nowhere: {secret}").map_err(|e| format!("cannot write the secret to standard error: {e}"))?;
    Ok(ExitCode::SUCCESS)
}

fn simulate(args: &loadtest::sim::Args) -> Result<ExitCode, String> {
    let verdict = loadtest::sim::run(args);
    say(&verdict.to_string())?;
    Ok(if verdict.ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
