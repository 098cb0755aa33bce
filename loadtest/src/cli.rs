//! The command `loadtest`: its arguments, and the run that they describe.

use crate::chat::Settings;
use crate::client::{End, Outcome};
use crate::http::{Base, Server, UrlError};
use crate::report::{Report, Setting};
use crate::runner::{self, Load};
use crate::workload::{self, Conversation, PromptsError};
use serde::Deserialize;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Puts load on an OpenAI-compatible chat endpoint and reports latency and throughput.
///
/// A closed loop: each client waits for its answer before it asks again. Plain http only.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct Args {
    /// The server: http://HOST:PORT, with or without /v1
    pub url: String,
    /// Clients that ask at the same time
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub concurrency: u32,
    /// Requests to send in all, warm-up not counted
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub requests: u32,
    /// Requests to send first and leave out of the report
    #[arg(long, default_value_t = 0)]
    pub warmup: u32,
    /// Tokens an answer may have
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: u32,
    /// JSON lines with "prompt", "turns" or "messages" each; built-in prompts if not given
    #[arg(long, value_name = "FILE.jsonl")]
    pub prompts: Option<PathBuf>,
    /// 0 is greedy
    #[arg(long, default_value_t = 0.0, value_parser = temperature)]
    pub temperature: f32,
    /// Decides which clients leave, and the seed of each answer unless temperature is 0
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Ask for exactly max-tokens tokens, where the server knows ignore_eos
    #[arg(long)]
    pub ignore_eos: bool,
    /// Share of clients that leave before the end, 0 to 1
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = fraction)]
    pub disconnect: f64,
    /// The model's id; the first of /v1/models if not given
    #[arg(long)]
    pub model: Option<String>,
    /// API key, sent as a bearer token
    #[arg(long)]
    pub key: Option<String>,
    /// Seconds that one request may take
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
    /// Also write the report here
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn temperature(text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=100.0).contains(&value) { Ok(value) } else { Err("it must be from 0 to 100".into()) }
}

fn fraction(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err("it must be from 0 to 1".into()) }
}

/// Why there is no report. A request that fails is in the report and is none of these.
#[derive(Debug, thiserror::Error)]
pub enum LoadtestError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Prompts { path: PathBuf, source: PromptsError },
    #[error("{url}/v1/models does not name a model ({reason}); give --model")]
    Model { url: String, reason: String },
    #[error("all {count} warm-up requests failed, such as: {example}")]
    Warmup { count: usize, example: String },
}

/// Runs the load and returns the report, which is also written to `args.json`. Nothing is printed.
pub fn run(args: &Args) -> Result<Report, LoadtestError> {
    let conversations = conversations(args)?;
    let server = Server::new(Base::parse(&args.url)?, args.key.clone(), Duration::from_secs(args.timeout));
    let model = match &args.model {
        Some(model) => model.clone(),
        None => first_model(&server)?,
    };
    let settings = Settings { model: model.clone(), max_tokens: args.max_tokens, temperature: args.temperature, ignore_eos: args.ignore_eos };
    let concurrency = args.concurrency as usize;
    let load = Load { settings, concurrency, seed: args.seed, disconnect: args.disconnect };

    let warmup = workload::plan(&conversations, 0, args.warmup as usize);
    let warm = runner::run(&server, &Load { disconnect: 0.0, ..load.clone() }, &warmup);
    check_warmup(&warm.outcomes)?;
    // Other prompts than the warm-up's, as far as there are others, so that they are not in the server's prefix cache.
    let jobs = workload::plan(&conversations, warmup.len(), args.requests as usize);
    let ran = runner::run(&server, &load, &jobs);

    let setting = Setting {
        url: server.base().to_string(),
        model,
        concurrency,
        warmup: args.warmup as usize,
        max_tokens: args.max_tokens,
        temperature: args.temperature,
        seed: args.seed,
        ignore_eos: args.ignore_eos,
        disconnect: args.disconnect,
    };
    let report = Report::new(setting, &ran);
    if let Some(path) = &args.json {
        std::fs::write(path, report.json() + "\n").map_err(|source| LoadtestError::File { path: path.clone(), source })?;
    }
    Ok(report)
}

fn conversations(args: &Args) -> Result<Vec<Conversation>, LoadtestError> {
    match &args.prompts {
        None => Ok(workload::built_in()),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|source| LoadtestError::File { path: path.clone(), source })?;
            workload::parse(&text).map_err(|source| LoadtestError::Prompts { path: path.clone(), source })
        }
    }
}

/// A service that answers no warm-up request would only fill the report with failures.
fn check_warmup(outcomes: &[Outcome]) -> Result<(), LoadtestError> {
    let failures: Vec<&crate::client::Failure> = outcomes.iter().filter_map(|o| if let End::Failed(f) = &o.end { Some(f) } else { None }).collect();
    match failures.last() {
        Some(failure) if failures.len() == outcomes.len() => Err(LoadtestError::Warmup { count: failures.len(), example: failure.to_string() }),
        _ => Ok(()),
    }
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

fn first_model(server: &Server) -> Result<String, LoadtestError> {
    let fail = |reason: String| LoadtestError::Model { url: server.base().to_string(), reason };
    let response = server.get("/v1/models").map_err(|e| fail(e.to_string()))?;
    let status = response.status();
    if !status.is_success() {
        return Err(fail(crate::http::explanation(status, response)));
    }
    let text = response.into_body().read_to_string().map_err(|e| fail(e.to_string()))?;
    let models: Models = serde_json::from_str(&text).map_err(|e| fail(e.to_string()))?;
    models.data.into_iter().next().map(|m| m.id).ok_or_else(|| fail("its list is empty".into()))
}
