//! Logs to standard error, and spans to a collector when OTEL_EXPORTER_OTLP_ENDPOINT names one.

use clap::ValueEnum;
use metrics::traces;
use std::io::IsTerminal;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

fn filter() -> Result<EnvFilter, String> {
    EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).from_env().map_err(|e| format!("RUST_LOG: {e}"))
}

/// In a worker: lines that the server reads, and passes on in its own log.
pub(crate) fn start_in_worker() -> Result<(), String> {
    let lines = fmt::layer().json().with_writer(std::io::stderr).log_internal_errors(false).with_filter(filter()?);
    tracing_subscriber::registry().with(lines).try_init().map_err(|e| format!("logging cannot start: {e}"))
}

/// Starts logging; hold what comes back until the end, so that the last spans are sent.
pub(crate) fn start(format: LogFormat) -> Result<Option<traces::Guard>, String> {
    let filter = filter()?;
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => lines.with_target(false).with_filter(filter).boxed(),
        LogFormat::Json => lines.json().with_filter(filter).boxed(),
    };
    let spans = traces::init().map_err(|e| e.to_string())?;
    let (layer, guard) = spans.unzip();
    tracing_subscriber::registry().with(lines).with(layer).try_init().map_err(|e| format!("logging cannot start: {e}"))?;
    Ok(guard)
}
