//! `coxswain serve`: loads a model, starts the actors, answers HTTP until told to stop.

use crate::budget::{self, Sizing};
use crate::logging::{self, LogFormat};
use crate::{descriptors, model};
use actors::Options;
use api::ServeOptions;
use models::engine::Engine;
use models::measure::Measured;
use models::mlx_engine::Opened;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder in MLX's or Hugging Face's layout, or a GGUF file; SmolLM2-135M-Instruct if not given
    #[arg(long, value_name = "PATH")]
    model: Option<PathBuf>,
    /// The model's id in the API; the folder's or file's name if not given
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Address to listen on; any but loopback needs --open
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Serve whoever reaches the address: there are no keys yet
    #[arg(long)]
    open: bool,
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
}

/// Serves until a signal; an error is one line.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let guard = logging::start(args.log_format)?;
    let path = model::path(args.model.as_deref(), "--model")?;
    let bound = api::bind(ServeOptions {
        host: args.host.clone(),
        port: args.port,
        open: args.open,
        drain_timeout: Duration::from_secs(args.drain_timeout),
        connections: descriptors::connections().map_err(|e| format!("the limit of open files cannot be read: {e}"))?,
        ..ServeOptions::default()
    })
    .map_err(|e| e.to_string())?;
    tracing::info!("loading {}", path.display());
    let text = model::text(&path)?;
    let service = actors::start(opener(args, path), options(args), Arc::new(text)).map_err(|e| e.to_string())?;
    let served = actix_web::rt::System::new().block_on(async move {
        let card = service.card().clone();
        let running = bound.serve(service).map_err(|e| e.to_string())?.catch_signals().map_err(|e| format!("signals cannot be caught: {e}"))?;
        for addr in running.addrs() {
            tracing::info!("serving {} on http://{addr} ({} positions)", card.id, card.context_length);
        }
        running.until_signal().await.map_err(|e| e.to_string())
    });
    drop(guard);
    served
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
        ..Options::default()
    }
}

fn opener(args: &Args, path: PathBuf) -> actors::Opener {
    let (sizing, deterministic) = (args.sizing, args.deterministic);
    let open = sizing.open(path, args.name.clone());
    Box::new(move || {
        // What cannot be is said now, not after minutes of loading.
        budget::measured(&Measured::open(&open)?, &sizing, &open.path)?;
        let opened = Opened::open(&open)?;
        tracing::info!("{}", opened.route());
        let (opened, blocks) = budget::blocks(opened, &sizing, &open.path)?;
        let context = sizing.context_of(opened.config());
        Ok(Box::new(opened.into_engine(blocks, context, deterministic)?) as Box<dyn Engine>)
    })
}
