//! Runs what the arguments ask for, and writes the report.

use crate::chat::Settings;
use crate::cli::Args;
use crate::client::Client;
use crate::http::{self, Server};
use crate::load::arrivals::Rate;
use crate::load::workload::{Habits, Jobs, Workload};
use crate::outcome::{End, Outcome};
use crate::page;
use crate::plain::plain;
use crate::plan::{LoadtestError, Plan};
use crate::progress::{Progress, Total};
use crate::report::figures::{Reading, Run};
use crate::report::{Pattern, Report, Setting, VERSION};
use crate::runner::{self, Arrivals};
use serde::Deserialize;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::LocalSet;

/// Runs the load and returns the report, which is also written to the files that the arguments name. Nothing is printed, except how
/// it stands, where standard error is a terminal.
pub fn run(args: &Args) -> Result<Report, LoadtestError> {
    let plan = Plan::of(args)?;
    let failed = |path: &Path, source| LoadtestError::File { path: path.to_owned(), source };
    for path in [&args.json, &args.html, &args.svg].into_iter().flatten() {
        // A file that cannot be written is told before the run, and not after it.
        std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(|source| failed(path, source))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| LoadtestError::Host { url: args.url.clone(), source })?;
    let report = LocalSet::new().block_on(&runtime, measure(args, &plan))?;
    let write = |path: &Path, text: String| std::fs::write(path, text).map_err(|source| failed(path, source));
    if let Some(path) = &args.json {
        write(path, report.json() + "\n")?;
    }
    if let Some(path) = &args.html {
        write(path, page::html(&report))?;
    }
    if let Some(path) = &args.svg {
        write(path, page::picture(&report))?;
    }
    Ok(report)
}

async fn measure(args: &Args, plan: &Plan) -> Result<Report, LoadtestError> {
    let server = Server::find(plan.base.clone()).await.map_err(|source| LoadtestError::Host { url: args.url.clone(), source })?;
    let timeout = Duration::from_secs(args.timeout);
    let model = match &args.model {
        Some(model) => model.clone(),
        None => first_model(&server, &plan.workload, timeout).await?,
    };
    let setting = setting(args, plan, server.base().to_string(), model.clone());
    let settings = Settings { model, temperature: args.temperature, ignore_eos: args.ignore_eos };
    let keys = plan.workload.keys.clone();
    let client = Rc::new(Client { server, settings, keys, timeout, slow_bytes_per_s: args.slow_reader_rate });
    let runs = match plan.pattern {
        Pattern::Closed { concurrency } => vec![closed(plan, client, concurrency, setting.slo.as_ref()).await?],
        Pattern::Open { in_flight_max, .. } | Pattern::Trace { in_flight_max, .. } => open(plan, client, in_flight_max, setting.slo.as_ref()).await,
    };
    Ok(Report { version: VERSION, setting, runs })
}

/// The warm-up first, drained, by clients that stay and read; then the run.
async fn closed(plan: &Plan, client: Rc<Client>, concurrency: usize, slo: Option<&crate::load::slo::Slo>) -> Result<Run, LoadtestError> {
    let warmup = plan.warmup_requests as usize;
    let mut next = 0;
    let seed = plan.workload.seed;
    if warmup > 0 {
        let calm = Arc::new(Workload { habits: Habits::default(), ..(*plan.workload).clone() });
        // Other prompts than the warm-up's for the run, as far as there are others, so that they are not in the server's prefix cache.
        next = Jobs::new(calm.clone(), 0, Some(warmup)).count();
        let progress = Progress::new("warm-up", Total::Requests(warmup));
        let warm = runner::closed(client.clone(), seed, Jobs::new(calm, 0, Some(warmup)), concurrency, None, progress).await;
        check_warmup(&warm.outcomes)?;
    }
    let requests = plan.requests.map(|requests| requests as usize);
    let total = plan.duration.map_or(Total::Requests(requests.unwrap_or_default()), Total::Time);
    let progress = Progress::new(&format!("{concurrency} clients"), total);
    let jobs = Jobs::new(plan.workload.clone(), next, requests);
    let ran = runner::closed(client, seed, jobs, concurrency, plan.duration, progress).await;
    let keys = plan.workload.keys.all();
    let reading = Reading { rate: None, keys, slo, warmup_requests: 0, warmup: Duration::ZERO, arrivals_end: None };
    Ok(Run::new(ran.outcomes, &reading))
}

/// A service that answers no warm-up request would only fill the report with failures.
fn check_warmup(outcomes: &[Outcome]) -> Result<(), LoadtestError> {
    let failures: Vec<String> = outcomes.iter().filter_map(|o| if let End::Failed(f) = &o.end { Some(f.to_string()) } else { None }).collect();
    match failures.last() {
        Some(example) if failures.len() == outcomes.len() => Err(LoadtestError::Warmup { count: failures.len(), example: plain(example) }),
        _ => Ok(()),
    }
}

/// A run a rate, each drained before the next.
async fn open(plan: &Plan, client: Rc<Client>, in_flight_max: usize, slo: Option<&crate::load::slo::Slo>) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut next = 0;
    for &rate in &plan.rates {
        let due = plan.due(next, rate);
        let jobs = Jobs::new(plan.workload.clone(), next, plan.requests_with_warmup());
        let progress = progress(plan, rate, due.len(), runs.len());
        // Prompts are not asked again while there are others.
        next += due.len();
        let arrivals = Arrivals { due: due.into_iter().zip(jobs), duration: plan.open_for() };
        let ran = runner::open(client.clone(), plan.workload.seed, arrivals, in_flight_max, progress).await;
        let reading = Reading {
            rate,
            keys: plan.workload.keys.all(),
            slo,
            warmup_requests: plan.warmup_requests as usize,
            warmup: plan.warmup,
            arrivals_end: ran.arrivals_end,
        };
        runs.push(Run::new(ran.outcomes, &reading));
    }
    runs
}

fn progress(plan: &Plan, rate: Option<Rate>, conversations: usize, done: usize) -> Option<Progress> {
    let of = if plan.rates.len() > 1 { format!(" ({} of {})", done + 1, plan.rates.len()) } else { String::new() };
    let what = rate.map_or("trace".to_owned(), |rate| rate.to_string()) + &of;
    // A trace without a number is of one request a conversation, as good as always.
    let requests = Total::Requests(plan.requests_with_warmup().unwrap_or(conversations));
    Progress::new(&what, plan.open_for().map_or(requests, Total::Time))
}

fn setting(args: &Args, plan: &Plan, url: String, model: String) -> Setting {
    Setting {
        url,
        model,
        pattern: plan.pattern.clone(),
        prompts: plan.prompts.clone(),
        requests: plan.requests,
        duration_s: args.duration,
        warmup: args.warmup,
        warmup_s: args.warmup_seconds,
        max_tokens: args.max_tokens,
        shape: plan.workload.shape,
        temperature: args.temperature,
        seed: args.seed,
        ignore_eos: args.ignore_eos,
        habits: plan.workload.habits,
        slow_reader_bytes_per_s: args.slow_reader_rate,
        timeout_s: args.timeout,
        keys: plan.workload.keys.all().to_vec(),
        slo: args.slo,
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

async fn first_model(server: &Server, workload: &Workload, timeout: Duration) -> Result<String, LoadtestError> {
    let fail = |reason: String| LoadtestError::Model { url: server.base().to_string(), reason: plain(&reason) };
    let (status, text) = server.get("/v1/models", workload.keys.secret(0), timeout).await.map_err(|e| fail(e.to_string()))?;
    if !status.is_success() {
        return Err(fail(http::explanation(status, &workload.keys.redact(text))));
    }
    let models: Models = serde_json::from_str(&text).map_err(|e| fail(e.to_string()))?;
    models.data.into_iter().next().map(|m| m.id).ok_or_else(|| fail("its list is empty".into()))
}
