//! `coxswain serve`: loads a model, starts the actors, answers HTTP until told to stop.

use crate::budget::Sizing;
use crate::logging::{self, LogFormat};
use crate::worker::Job;
use crate::{FAILED, Failed, descriptors, model};
use actix_web::rt::signal::unix::{SignalKind, signal};
use actors::{Dialect, Options, Reasoning, Service};
use api::{Keys, ServeOptions};
use models::engine::EngineError;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder in MLX's or Hugging Face's layout, or a GGUF file; SmolLM2-135M-Instruct if not given
    #[arg(long, value_name = "PATH")]
    model: Option<PathBuf>,
    /// The model's id in the API; the folder's or file's name if not given
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Address to listen on; any but loopback needs --keys or --open
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Serve whoever reaches the address, without keys
    #[arg(long, conflicts_with = "keys")]
    open: bool,
    /// Who may use the model: TOML with a [[key]] for each, made by `coxswain key`; read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    #[command(flatten)]
    sizing: Sizing,
    /// Requests that may wait beyond those that run
    #[arg(long, default_value_t = 1024)]
    queue: u32,
    /// Compute every prompt anew, also where a cached prefix would do
    #[arg(long)]
    no_prefix_cache: bool,
    /// A request's tokens are the same bits alone or among others, at a cost in speed
    #[arg(long)]
    deterministic: bool,
    /// Seconds that running answers have to finish after SIGTERM or Ctrl-C
    #[arg(long, default_value_t = 30)]
    drain_timeout: u64,
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Run the model in this process: for debugging, since what kills the model kills the server then
    #[arg(long)]
    in_process: bool,
    /// Seconds that a step may take, if recent ones do not lead to expect longer, before the worker counts as hung and is replaced; the
    /// first step after loading may take four times as long
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    step_deadline: u64,
    /// Seconds that loading the model may take
    #[arg(long, default_value_t = 1800, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    load_deadline: u64,
    /// Losses of the worker within a minute after which requests are refused until it is back
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    losses: u32,
    /// How the model writes calls of tools, where its chat template does not show it: none, hermes, qwen3-coder, llama3, mistral, gemma4,
    /// minicpm or glm4
    #[arg(long, value_name = "NAME")]
    tool_parser: Option<Dialect>,
    /// How the model writes its reasoning, where its chat template does not show it: none, think, gemma4 or mistral
    #[arg(long, value_name = "NAME")]
    reasoning_parser: Option<Reasoning>,
    /// End with an error instead of waiting for the model to come back, once requests are refused
    #[arg(long)]
    exit_on_failure: bool,
}

/// Serves until a signal; an error is one line.
pub(crate) fn run(args: &Args) -> Result<(), Failed> {
    // Until there is somebody to take it: it would end the process.
    // SAFETY: plain system call.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    let guard = logging::start(args.log_format)?;
    let path = model::path(args.model.as_deref(), "--model")?;
    let keys = args.keys.as_deref().map(Keys::open).transpose().map_err(|e| e.to_string())?.map(Arc::new);
    let bound = api::bind(ServeOptions {
        host: args.host.clone(),
        port: args.port,
        open: args.open,
        keys: keys.clone(),
        drain_timeout: Duration::from_secs(args.drain_timeout),
        connections: descriptors::connections().map_err(|e| format!("the limit of open files cannot be read: {e}"))?,
        ..ServeOptions::default()
    })
    .map_err(|e| e.to_string())?;
    tracing::info!("loading {}", path.display());
    let text = model::text(&path)?;
    let home = Job::new(&path, args.name.clone(), args.sizing, args.deterministic).home(args.in_process)?;
    let (opened_to, opened) = oneshot::channel();
    // Nobody to tell means that this process ends.
    let service = actors::begin(home, options(args), Arc::new(text), Box::new(move |outcome| drop(opened_to.send(outcome)))).map_err(|e| e.to_string())?;
    let served = actix_web::rt::System::new().block_on(async move {
        let running = bound.serve(service.clone()).map_err(|e| e.to_string())?.catch_signals().map_err(|e| format!("signals cannot be caught: {e}"))?;
        let addrs = running.addrs().to_vec();
        for addr in &addrs {
            tracing::info!("listening on http://{addr}; until the model is loaded, requests are answered with 503");
        }
        reload_on_hangup(keys)?;
        let down = down(&service, args.exit_on_failure);
        tokio::select! {
            served = running.until_signal() => served.map_err(|e| e.to_string().into()),
            failed = open(&service, opened, &addrs) => Err(failed),
            failed = down => Err(failed),
        }
    });
    drop(guard);
    served
}

/// A file that is wrong changes nothing, and is told of. Without one the signal, which would end the process, is taken all the same.
fn reload_on_hangup(keys: Option<Arc<Keys>>) -> Result<(), Failed> {
    let mut hangups = signal(SignalKind::hangup()).map_err(|e| format!("SIGHUP cannot be caught: {e}"))?;
    actix_web::rt::spawn(async move {
        while hangups.recv().await.is_some() {
            match keys.as_ref().map(|keys| keys.reload()) {
                Some(Ok(count)) => tracing::info!(count, "the keys file was read again"),
                Some(Err(error)) => tracing::error!("the keys stay as they were: {error}"),
                None => tracing::info!("SIGHUP: there is no keys file to read again"),
            }
        }
    });
    Ok(())
}

/// Says when the model is open; returns only if it cannot be opened.
async fn open(service: &Service, opened: oneshot::Receiver<Result<(), EngineError>>, addrs: &[SocketAddr]) -> Failed {
    let why = match (opened.await, service.card()) {
        (Ok(Ok(())), Ok(card)) => {
            for addr in addrs {
                tracing::info!("serving {} on http://{addr} ({} positions)", card.id, card.context_length);
            }
            return std::future::pending().await;
        }
        (Ok(Ok(())), Err(failure)) => failure.to_string(),
        (Ok(Err(error)), _) => error.to_string(),
        (Err(_), _) => "the model's keeper ended while it was being opened".to_owned(),
    };
    why.into()
}

/// Returns when requests are refused because the model is lost, and that is to be the end.
async fn down(service: &Service, exit: bool) -> Failed {
    if !exit {
        return std::future::pending().await;
    }
    let why = format!("the model is not available: {}", service.down().await);
    // Whoever asked has been told; this lets the answers out.
    service.drain(Duration::from_secs(1)).await;
    Failed { code: FAILED, why }
}

fn options(args: &Args) -> Options {
    let Sizing { batch, prefill_chunk, depth, .. } = args.sizing;
    Options {
        batch,
        prefill_chunk,
        step_tokens: args.sizing.step_tokens(),
        depth,
        queue: args.queue,
        prefix_cache: !args.no_prefix_cache,
        step_deadline: Duration::from_secs(args.step_deadline),
        load_deadline: Duration::from_secs(args.load_deadline),
        deaths_max: args.losses,
        dialect: args.tool_parser,
        reasoning: args.reasoning_parser,
    }
}
