//! The command's arguments.

use crate::load::keys::Secret;
use crate::load::slo::Slo;
use crate::load::trace::Unit;
use crate::load::units::{self, Ramp, Span, Sweep};
use std::path::PathBuf;

/// Puts load on an OpenAI-compatible chat endpoint and reports latency and throughput.
///
/// A closed loop unless --rate, --ramp, --sweep or --trace is given: each of so many clients waits for its answer before it asks again.
/// An open loop sends each request when it is due, whether or not others have been answered. In both, latency counts from when a
/// request was due. 429 and 503 with Retry-After are refusals, not failures: they are counted apart. The status is 1 if a request
/// failed or all were refused, and 2 if there is no report. Plain http only.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct Args {
    /// The server: http://HOST:PORT, with or without /v1
    pub url: String,

    /// Closed loop: clients that ask at the same time
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=65536), conflicts_with_all = ["rate", "ramp", "sweep", "trace"])]
    pub concurrency: u32,
    /// Open loop: conversations that begin in a second
    #[arg(long, value_parser = units::rate, conflicts_with_all = ["ramp", "sweep", "trace"])]
    pub rate: Option<f64>,
    /// Open loop: a rate that goes from one to the other over the run
    #[arg(long, value_name = "FROM..TO", conflicts_with_all = ["sweep", "trace"])]
    pub ramp: Option<Ramp>,
    /// Open loop: one run after the other, each with its rate and drained before the next: 0.5,1,2 or "FROM..TO xN" for N rates, each
    /// the same multiple of the one before
    #[arg(long, value_name = "RATES", conflicts_with = "trace")]
    pub sweep: Option<Sweep>,
    /// Open loop: how gaps between arrivals vary [default: poisson]
    #[arg(long, value_enum, conflicts_with_all = ["concurrency", "trace"])]
    pub arrivals: Option<Process>,
    /// Shape of gamma arrivals, as vLLM's bench has it: 1 is Poisson, less comes in bursts, more comes evenly [default: 1]
    #[arg(long, value_parser = units::burstiness, requires = "arrivals")]
    pub burstiness: Option<f64>,
    /// Open loop: requests at once. One that is due when there are as many is delayed, and its latency counts that [default: 4096, or as
    /// many as the limit of open files allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "concurrency")]
    pub max_in_flight: Option<u32>,

    /// Requests of a run, warm-up not counted [default: 64, or a trace's]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub requests: Option<u32>,
    /// Ask for so long instead; what runs then is waited for
    #[arg(long, value_name = "SECONDS", value_parser = units::seconds, conflicts_with = "requests")]
    pub duration: Option<f64>,
    /// Requests to leave out of the report: a closed loop sends them before it begins, an open loop's first ones are
    #[arg(long, default_value_t = 0)]
    pub warmup: u32,
    /// Open loop: leave out what is due in the first seconds, which are added to --duration
    #[arg(long, value_name = "SECONDS", value_parser = units::seconds, conflicts_with_all = ["warmup", "concurrency"])]
    pub warmup_seconds: Option<f64>,

    /// JSON lines with "prompt", "turns" or "messages" each; built-in prompts if not given
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["random_prompt", "trace"])]
    pub prompts: Option<PathBuf>,
    /// Prompts of so many random words, each about a token
    #[arg(long, value_name = "MIN..MAX", conflicts_with = "trace")]
    pub random_prompt: Option<Span>,
    /// Answers of at most so many tokens, drawn for each request (exactly so many with --ignore-eos)
    #[arg(long, value_name = "MIN..MAX", conflicts_with = "max_tokens")]
    pub random_output: Option<Span>,
    /// Begin each conversation with a system prompt of so many random words, about a token each
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub shared_prefix: Option<u32>,
    /// How many different shared prefixes there are; each conversation has one of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), requires = "shared_prefix")]
    pub groups: u32,
    /// Conversations of so many turns, each turn one of the prompts
    #[arg(long, value_name = "N or MIN..MAX", conflicts_with = "trace")]
    pub turns: Option<Span>,
    /// Open loop: replay JSON lines with a "timestamp" each that does not fall, and "prompt", "turns", "messages" or "input_length"
    /// (random words); "output_length" bounds the answer in place of --max-tokens
    #[arg(long, value_name = "FILE.jsonl")]
    pub trace: Option<PathBuf>,
    /// What the trace's timestamps count
    #[arg(long, value_enum, default_value_t = Unit::S, requires = "trace")]
    pub trace_unit: Unit,
    /// Replay the trace so many times as fast
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = units::factor, requires = "trace")]
    pub speed: f64,

    /// Tokens an answer may have
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: u32,
    /// 0 is greedy
    #[arg(long, default_value_t = 0.0, value_parser = units::temperature)]
    pub temperature: f32,
    /// Decides all that is drawn: arrivals, lengths, who leaves, and the seed of each answer unless temperature is 0
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Ask for exactly max-tokens tokens, where the server knows ignore_eos
    #[arg(long)]
    pub ignore_eos: bool,
    /// Share of clients that leave before the end, 0 to 1
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = units::fraction)]
    pub disconnect: f64,
    /// Share of clients that read slowly, 0 to 1; latencies leave them out
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = units::fraction)]
    pub slow_reader: f64,
    /// How fast a slow client reads
    #[arg(long, value_name = "BYTES/S", default_value_t = 1000.0, value_parser = units::bytes_per_s)]
    pub slow_reader_rate: f64,

    /// The model's id; the first of /v1/models if not given
    #[arg(long)]
    pub model: Option<String>,
    /// API key, sent as a bearer token: a secret; or NAME=SECRET:WEIGHT, any number of times, for a mix with a line of the report each
    #[arg(long, value_name = "SECRET")]
    pub key: Vec<Secret>,
    /// A file with NAME=SECRET:WEIGHT a line, # before a remark
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    pub keys: Option<PathBuf>,
    /// Seconds that one request may take
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,

    /// Count requests that hold all limits, such as ttft=500ms,itl=100ms,e2e=10s: to the first text; the request's mean time between
    /// pieces of text; to the end. tpot is from the first text to the end over the tokens after the first, as vLLM's goodput has it
    #[arg(long, value_name = "LIMITS")]
    pub slo: Option<Slo>,
    /// Also write the report here
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also write a page with plots here, which needs no other file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Also write a sweep's plot here, as a picture
    #[arg(long, value_name = "FILE", requires = "sweep")]
    pub svg: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Process {
    Poisson,
    Gamma,
    Constant,
}
