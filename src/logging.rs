//! Logs to standard error, and spans to a collector when OTEL_EXPORTER_OTLP_ENDPOINT names one.

use clap::ValueEnum;
use metrics::traces;
use std::io::IsTerminal;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::filter::Directive;
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

/// Hold it until the end, so that the last spans are sent and the last lines written.
pub(crate) struct Logging {
    _spans: Option<traces::Guard>,
    _lines: WorkerGuard,
}

/// Starts logging. Lines are written by a thread of their own, and beyond some 100,000 of them dropped: whoever reads standard error and
/// stops reading must not stop the service.
pub(crate) fn start(format: LogFormat) -> Result<Logging, String> {
    let (writer, written) = tracing_appender::non_blocking(std::io::stderr());
    // What the worker logs went through the same filter there.
    let directive = |text: &str| text.parse::<Directive>().map_err(|e| format!("{text}: {e}"));
    let filter = filter()?.add_directive(directive("worker=trace")?).add_directive(directive("spans=off")?);
    let lines = fmt::layer().with_writer(writer).with_ansi(std::io::stderr().is_terminal());
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => lines.with_target(false).with_filter(filter).boxed(),
        LogFormat::Json => lines.json().with_filter(filter).boxed(),
    };
    let spans = traces::init().map_err(|e| e.to_string())?;
    let (layer, guard) = spans.unzip();
    tracing_subscriber::registry().with(lines).with(layer).try_init().map_err(|e| format!("logging cannot start: {e}"))?;
    Ok(Logging { _spans: guard, _lines: written })
}
