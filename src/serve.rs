//! `coxswain serve`: loads a model, starts the actors, answers HTTP until told to stop.

use crate::budget::{self, Wanted};
use crate::logging::{self, LogFormat};
use crate::{Placing, descriptors, model};
use actors::Options;
use api::ServeOptions;
use kv::budget::BudgetSpec;
use models::engine::Engine;
use models::mlx_engine::{OpenOptions, Opened};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder in MLX's or Hugging Face's layout, or a GGUF file; SmolLM2-135M-Instruct if not given
    #[arg(long, value_name = "PATH")]
    model: Option<PathBuf>,
    /// The model's id in the API; the folder's or file's name if not given
    #[arg(long)]
    name: Option<String>,
    /// Address to listen on; any but loopback needs --open
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Serve whoever reaches the address: there are no keys yet
    #[arg(long)]
    open: bool,
    /// Rows that are decoded together
    #[arg(long, alias = "decode-concurrency", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=512))]
    batch: u32,
    /// Bytes for K and V of all rows and cached prefixes together, such as 512MB or 8GB, or auto
    #[arg(long, default_value = "auto", value_parser = kv::budget::parse)]
    kv_budget: BudgetSpec,
    /// Tokens of a prompt that are computed in one step, between everybody's next tokens
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=8192))]
    prefill_chunk: u32,
    /// Positions a request may have, prompt and answer together; what the model was made for if not given
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    context: Option<u32>,
    /// Requests that may wait beyond those that run
    #[arg(long, default_value_t = 1024)]
    queue: u32,
    /// Steps in flight
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    depth: u32,
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
    #[command(flatten)]
    placing: Placing,
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
    Options {
        batch: args.batch,
        prefill_chunk: args.prefill_chunk,
        // A chunk beside a full batch.
        step_tokens: args.prefill_chunk + args.batch,
        depth: args.depth,
        queue: args.queue,
        prefix_cache: !args.no_prefix_cache,
        ..Options::default()
    }
}

fn opener(args: &Args, path: PathBuf) -> actors::Opener {
    let (spec, batch, prefill_chunk, depth) = (args.kv_budget, args.batch, args.prefill_chunk, args.depth);
    let (context, deterministic) = (args.context, args.deterministic);
    let open = OpenOptions { path, name: args.name.clone(), device: args.placing.device(), dtype: args.placing.dtype() };
    Box::new(move || {
        let opened = Opened::open(&open)?;
        tracing::info!("{}", opened.route());
        let context = opened.context().min(context.unwrap_or(u32::MAX));
        let blocks = budget::blocks(&opened, &Wanted { spec, batch, prefill_chunk, depth, context, gathers: opened.gathers() }, &open.path)?;
        Ok(Box::new(opened.into_engine(blocks, context, deterministic)?) as Box<dyn Engine>)
    })
}
