//! Spans to an OpenTelemetry collector, as OTLP over plain HTTP, from a thread of their own. Off unless the environment asks.
//!
//! The service emits `tracing` spans and knows nothing of OpenTelemetry. Field names are OpenTelemetry's for generative AI:
//! an HTTP server span (`otel.kind = "server"`); in it one with `otel.name = "chat {model}"` and `gen_ai.operation.name`,
//! `gen_ai.request.model`, `gen_ai.request.{max_tokens,temperature,top_p,top_k,seed}`, `gen_ai.response.{id,model,finish_reasons}`,
//! `gen_ai.usage.{input_tokens,output_tokens}`; in that `queue`, `prefill`, `decode`. Never the prompt's text.

use crate::collector::Collector;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::level_filters::LevelFilter;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::{OpenTelemetrySpanExt, SetParentError};
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

/// Names the collector, without a path: `http://localhost:4318`.
pub const ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// A layer to add to the subscriber, and a [`Guard`] to keep until the service ends.
pub type Traces<S> = (Box<dyn Layer<S> + Send + Sync>, Guard);

#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    #[error("{ENDPOINT_VARIABLE} is {endpoint:?}: it must start with http:// (TLS is not built in; run a collector on this machine)")]
    Scheme { endpoint: String },
    #[error("the exporter of traces cannot be made: {0}")]
    Exporter(#[from] ExporterBuildError),
}

/// Exports what is still queued when it is dropped, for 5 seconds at most.
pub struct Guard {
    provider: SdkTracerProvider,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "the last spans may not have reached the collector");
        }
    }
}

/// The layer that exports spans, or None when [`ENDPOINT_VARIABLE`] is unset or empty.
///
/// Other variables of OpenTelemetry's specification hold too: OTEL_SERVICE_NAME (`coxswain` unless set), OTEL_RESOURCE_ATTRIBUTES,
/// OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_BSP_*.
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let (layer, _guard) = metrics::traces::init()?.unzip();
/// let subscriber = tracing_subscriber::registry().with(layer).with(tracing_subscriber::fmt::layer());
/// # drop(subscriber);
/// # Ok::<(), metrics::traces::TracesError>(())
/// ```
pub fn init<S>() -> Result<Option<Traces<S>>, TracesError>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    match std::env::var(ENDPOINT_VARIABLE) {
        Ok(endpoint) if !endpoint.is_empty() => to_collector(&endpoint).map(Some),
        _ => Ok(None),
    }
}

/// The layer that exports spans to `{endpoint}/v1/traces`.
pub fn to_collector<S>(endpoint: &str) -> Result<Traces<S>, TracesError>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    if !endpoint.starts_with("http://") {
        return Err(TracesError::Scheme { endpoint: endpoint.to_owned() });
    }
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Collector::new())
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .build()?;
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name("coxswain");
    }
    let provider = SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter).build();
    // A span of every crate below would drown ours: their finer ones are left out.
    let layer = tracing_opentelemetry::layer()
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracer(provider.tracer("coxswain"))
        .with_filter(LevelFilter::INFO);
    Ok((Box::new(layer), Guard { provider }))
}

/// Makes `span` a child of what the client's W3C `traceparent` (and `tracestate`) headers name. Call it before `span` is entered.
/// Does nothing for a malformed header, as the W3C recommendation asks, and nothing while tracing is off.
pub fn adopt(span: &Span, traceparent: &str, tracestate: Option<&str>) {
    let headers = Headers { traceparent, tracestate };
    let parent = TraceContextPropagator::new().extract(&headers);
    match span.set_parent(parent) {
        Ok(()) | Err(SetParentError::LayerNotFound | SetParentError::SpanDisabled) => {}
        Err(error @ SetParentError::AlreadyStarted) => {
            tracing::warn!(%error, "traceparent came too late for its span");
        }
    }
}

struct Headers<'a> {
    traceparent: &'a str,
    tracestate: Option<&'a str>,
}

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => Some(self.traceparent),
            "tracestate" => self.tracestate,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}
