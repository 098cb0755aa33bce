//! The HTTP client under the exporter. It blocks, and may: the SDK exports from a thread of its own.

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use std::time::Duration;

/// An answer to a batch of spans is a few bytes; this much is more than any.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// OTEL_EXPORTER_OTLP_TIMEOUT's default.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Collector {
    agent: ureq::Agent,
}

impl Collector {
    pub(crate) fn new() -> Collector {
        let config = ureq::Agent::config_builder()
            // The exporter judges the status itself, and retries by it.
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .proxy(None)
            .build();
        Collector { agent: config.new_agent() }
    }
}

#[async_trait::async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let answer = self.agent.run(Request::from_parts(parts, body.as_ref()))?;
        let (parts, mut body) = answer.into_parts();
        let bytes = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        Ok(Response::from_parts(parts, Bytes::from(bytes)))
    }
}
