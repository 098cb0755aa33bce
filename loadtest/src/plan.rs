//! From arguments to what will be run: files are read, and options that do not go together are named, before anything is sent.

use crate::cli::{Args, Process};
use crate::http::{Base, UrlError};
use crate::limits;
use crate::load::arrivals::{self, Arrivals, Rate};
use crate::load::keys::{Keys, KeysError};
use crate::load::prompts::{self, LineError};
use crate::load::trace;
use crate::load::workload::{Habits, Jobs, Shape, Source, Workload};
use crate::report::{Pattern, Prompts};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Why there is no report. A request that fails is in the report and is none of these.
#[derive(Debug, thiserror::Error)]
pub enum LoadtestError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("{url}: {source}")]
    Host { url: String, source: io::Error },
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Lines { path: PathBuf, source: LineError },
    #[error("{}{source}", file.as_ref().map_or(String::new(), |file| format!("{}: ", file.display())))]
    Keys { file: Option<PathBuf>, source: KeysError },
    #[error("{option}: {reason}")]
    Option { option: &'static str, reason: String },
    #[error("{url}/v1/models does not name a model ({reason}); give --model")]
    Model { url: String, reason: String },
    #[error("all {count} warm-up requests failed, such as: {example}")]
    Warmup { count: usize, example: String },
}

/// Requests of a run for which nothing else was said.
const REQUESTS: u32 = 64;

/// In flight at once, unless said otherwise: more than any service that is asked of has places for.
const IN_FLIGHT: usize = 4096;

pub struct Plan {
    pub base: Base,
    pub workload: Arc<Workload>,
    pub pattern: Pattern,
    pub prompts: Prompts,
    /// A run each; a closed loop and a trace have one without a rate.
    pub rates: Vec<Option<Rate>>,
    /// Of a run, warm-up not counted. None: until its time or its trace is over.
    pub requests: Option<u32>,
    pub duration: Option<Duration>,
    pub warmup_requests: u32,
    pub warmup: Duration,
}

impl Plan {
    pub fn of(args: &Args) -> Result<Plan, LoadtestError> {
        let base = Base::parse(&args.url)?;
        for path in [&args.json, &args.html, &args.svg].into_iter().flatten() {
            has_a_folder(path)?;
        }
        let keys = keys(args)?;
        let (source, prompts) = source(args)?;
        let pattern = pattern(args)?;
        let unbounded = args.duration.is_some() || args.trace.is_some();
        let requests = args.requests.or(if unbounded { None } else { Some(REQUESTS) });
        if args.warmup_seconds.is_some() && (args.requests.is_some() || matches!(pattern, Pattern::Closed { .. }) || !unbounded) {
            let reason = "it needs an open loop with --duration, or --trace; --warmup counts requests".into();
            return Err(LoadtestError::Option { option: "--warmup-seconds", reason });
        }
        let rates = rates(args, requests);
        bounded(&rates, args)?;
        let shape =
            Shape { turns: args.turns, shared_prefix: args.shared_prefix, groups: args.shared_prefix.map(|_| args.groups), random_output: args.random_output };
        let habits = Habits { disconnect: args.disconnect, slow_reader: args.slow_reader };
        let workload = Workload { source, shape, habits, keys, max_tokens: args.max_tokens, seed: args.seed };
        Ok(Plan {
            base,
            workload: Arc::new(workload),
            pattern,
            prompts,
            rates,
            requests,
            duration: args.duration.map(Duration::from_secs_f64),
            warmup_requests: args.warmup,
            warmup: args.warmup_seconds.map_or(Duration::ZERO, Duration::from_secs_f64),
        })
    }

    /// Requests of a run, warm-up counted.
    pub fn requests_with_warmup(&self) -> Option<usize> {
        self.requests.map(|requests| requests as usize + self.warmup_requests as usize)
    }

    /// When requests arrive no more.
    pub fn open_for(&self) -> Option<Duration> {
        self.duration.map(|duration| self.warmup + duration)
    }

    /// When conversations of an open loop are due: those from number `next` on.
    pub fn due(&self, next: usize, rate: Option<Rate>) -> Vec<Duration> {
        let end = self.open_for().unwrap_or(Duration::MAX);
        match (rate, &self.pattern, &self.workload.source) {
            (Some(rate), Pattern::Open { arrivals, .. }, _) => {
                let count = match (self.open_for(), self.requests_with_warmup()) {
                    (Some(time), _) => (rate.arrivals(time.as_secs_f64()).round() as usize).max(1),
                    (None, most) => Jobs::new(self.workload.clone(), next, most).count(),
                };
                arrivals::offsets(*arrivals, rate, self.workload.seed, count).collect()
            }
            (_, Pattern::Trace { speed, .. }, Source::Trace(entries)) => {
                let due = entries.iter().map(|entry| entry.at.div_f64(*speed)).take_while(|&at| at < end);
                due.take(self.requests_with_warmup().unwrap_or(usize::MAX)).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn has_a_folder(path: &Path) -> Result<(), LoadtestError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() {
        return Ok(());
    }
    Err(LoadtestError::File { path: path.to_owned(), source: io::Error::new(io::ErrorKind::NotFound, "its folder is not there") })
}

fn read(path: &Path) -> Result<String, LoadtestError> {
    std::fs::read_to_string(path).map_err(|source| LoadtestError::File { path: path.to_owned(), source })
}

fn keys(args: &Args) -> Result<Keys, LoadtestError> {
    match &args.keys {
        None => Keys::of_options(&args.key).map_err(|source| LoadtestError::Keys { file: None, source }),
        Some(path) => Keys::parse(&read(path)?).map_err(|source| LoadtestError::Keys { file: Some(path.clone()), source }),
    }
}

fn source(args: &Args) -> Result<(Source, Prompts), LoadtestError> {
    let named = |path: &Path| path.display().to_string();
    if let Some(path) = &args.trace {
        let entries = trace::parse(&read(path)?, args.trace_unit).map_err(|source| LoadtestError::Lines { path: path.clone(), source })?;
        return Ok((Source::Trace(entries), Prompts::Trace));
    }
    if let Some(words) = args.random_prompt {
        return Ok((Source::Random(words), Prompts::Random { words }));
    }
    let Some(path) = &args.prompts else { return Ok((Source::Listed(prompts::built_in()), Prompts::BuiltIn)) };
    let listed = prompts::parse(&read(path)?).map_err(|source| LoadtestError::Lines { path: path.clone(), source })?;
    Ok((Source::Listed(listed), Prompts::File { file: named(path) }))
}

fn pattern(args: &Args) -> Result<Pattern, LoadtestError> {
    let wrong = |option, reason: &str| Err(LoadtestError::Option { option, reason: reason.into() });
    let open = args.rate.is_some() || args.ramp.is_some() || args.sweep.is_some();
    let connections = limits::connections_max();
    let too_many = |option, asked: usize| {
        let reason = format!("{asked} connections are more than this process may open: at most {connections}, or raise `ulimit -n`");
        Err(LoadtestError::Option { option, reason })
    };
    if !open && args.trace.is_none() {
        if args.arrivals.is_some() {
            return wrong("--arrivals", "it needs --rate, --ramp or --sweep");
        }
        if args.max_in_flight.is_some() {
            return wrong("--max-in-flight", "it needs --rate, --ramp, --sweep or --trace; a closed loop has --concurrency");
        }
        let concurrency = args.concurrency as usize;
        return if concurrency > connections { too_many("--concurrency", concurrency) } else { Ok(Pattern::Closed { concurrency }) };
    }
    let in_flight_max = args.max_in_flight.map_or(IN_FLIGHT.min(connections), |n| n as usize);
    if in_flight_max > connections {
        return too_many("--max-in-flight", in_flight_max);
    }
    if let Some(path) = &args.trace {
        return Ok(Pattern::Trace { file: path.display().to_string(), speed: args.speed, in_flight_max });
    }
    let arrivals = match (args.arrivals, args.burstiness) {
        (Some(Process::Gamma), burstiness) => Arrivals::Gamma { burstiness: burstiness.unwrap_or(1.0) },
        (_, Some(_)) => return wrong("--burstiness", "it needs --arrivals gamma"),
        (None | Some(Process::Poisson), None) => Arrivals::Poisson,
        (Some(Process::Constant), None) => Arrivals::Constant,
    };
    Ok(Pattern::Open { arrivals, in_flight_max })
}

/// Each arrival takes memory before it is due.
const ARRIVALS_MAX: f64 = 1e7;

fn bounded(rates: &[Option<Rate>], args: &Args) -> Result<(), LoadtestError> {
    let Some(duration) = args.duration else { return Ok(()) };
    let seconds = duration + args.warmup_seconds.unwrap_or_default();
    let most = rates.iter().flatten().map(|rate| rate.arrivals(seconds)).fold(0.0, f64::max);
    if most <= ARRIVALS_MAX {
        return Ok(());
    }
    let reason = format!("{seconds} s at this rate are {most:.0} conversations, more than {ARRIVALS_MAX}");
    Err(LoadtestError::Option { option: "--duration", reason })
}

fn rates(args: &Args, requests: Option<u32>) -> Vec<Option<Rate>> {
    let steady = |per_s: f64| Some(Rate::Steady { per_s });
    if let Some(sweep) = &args.sweep {
        return sweep.0.iter().map(|&rate| steady(rate)).collect();
    }
    let Some(ramp) = args.ramp else { return vec![args.rate.and_then(steady)] };
    let mean = (ramp.from_per_s + ramp.to_per_s) / 2.0;
    // Arrivals are conversations, which may have more than one request.
    let turns = args.turns.map_or(1.0, |turns| f64::from(turns.min + turns.max) / 2.0);
    let by_count = || f64::from(requests.unwrap_or_default() + args.warmup) / turns / mean;
    let over_s = args.duration.map_or_else(by_count, |duration| duration + args.warmup_seconds.unwrap_or_default());
    vec![Some(Rate::Ramp { from_per_s: ramp.from_per_s, to_per_s: ramp.to_per_s, over_s })]
}
