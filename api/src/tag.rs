//! What goes around every request: its id, its span, and its one log line.

use crate::guard::WATCHED;
use crate::ids;
use actix_web::HttpMessage;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::middleware::Next;
use std::cell::Cell;
use std::rc::Rc;
use tracing::field::Empty;
use tracing::{Instrument, Span};

/// The client's id for a request, or ours.
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What a request goes by in logs and in its answer's `x-request-id`.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// The request has its log line from whoever answers it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Logged(pub(crate) Rc<Cell<bool>>);

/// Whoever leaves before there is an answer drops this, and has a line all the same.
struct Line {
    id: String,
    logged: Logged,
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.logged.0.get() {
            tracing::info!(id = self.id, finish = "abort", "the client left before it was answered");
        }
    }
}

/// Gives the request its id, and one log line unless it gets one elsewhere. Neither the path as sent nor a body is logged: both may hold what is nobody's business.
pub(crate) async fn tag(request: ServiceRequest, next: Next<impl MessageBody>) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let id = ids::of_client(request.headers().get(&X_REQUEST_ID)).unwrap_or_else(ids::fresh);
    request.extensions_mut().insert(RequestId(id.clone()));
    let line = Line { id: id.clone(), logged: Logged::default() };
    request.extensions_mut().insert(line.logged.clone());
    let span = server_span(&request);
    // It ends when the answer does: what is asked of the service within it holds on to it.
    let mut response = next.call(request).instrument(span.clone()).await?;
    span.record("http.response.status_code", i64::from(response.status().as_u16()));
    if !line.logged.0.replace(true) {
        let route = response.request().match_pattern().unwrap_or_default();
        let (method, status) = (response.request().method(), response.status().as_u16());
        // Probes, scrapers and the console come every second, and say nothing by it.
        if WATCHED.contains(&route.as_str()) && status < 400 {
            tracing::debug!(id, route, %method, status, "answered");
        } else {
            tracing::info!(id, route, %method, status, "answered");
        }
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    Ok(response)
}

/// OpenTelemetry's span of an HTTP server, under the client's trace if it sent one. Probes and scrapers would fill a collector with theirs.
fn server_span(request: &ServiceRequest) -> Span {
    if WATCHED.contains(&request.path()) {
        return Span::none();
    }
    let span = tracing::info_span!(
        "http",
        otel.name = Empty,
        otel.kind = "server",
        http.request.method = request.method().as_str(),
        http.route = Empty,
        http.response.status_code = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    let route = request.match_pattern();
    span.record("otel.name", format!("{} {}", request.method(), route.as_deref().unwrap_or_default()).trim_end());
    if let Some(route) = &route {
        span.record("http.route", route);
    }
    let header = |name: &str| request.headers().get(name)?.to_str().ok();
    if let Some(parent) = header("traceparent") {
        metrics::traces::adopt(&span, parent, header("tracestate"));
    }
    span
}
