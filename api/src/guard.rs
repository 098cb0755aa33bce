//! Who may ask: the keys before every route that needs one.

use crate::keys::Keys;
use crate::keys::gate::Holder;
use crate::refusal::{Kind, Refusal};
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::ConnectionType;
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{HttpMessage, HttpRequest, ResponseError};
use actors::{Key, Service};
use std::sync::Arc;
use std::time::Instant;

/// The gate of an app that has keys.
pub(crate) struct Gate(pub(crate) Option<Arc<Keys>>);

/// What tells of the service: a probe and a scraper have no key. Compared with the path as it was sent, so that no spelling of another
/// path is one of these.
const WITHOUT_KEY: [&str; 7] = ["/health", "/livez", "/readyz", "/metrics", "/stats", "/openapi.json", "/"];
/// Of these, those that are asked for over and over.
pub(crate) const WATCHED: [&str; 5] = ["/health", "/livez", "/readyz", "/metrics", "/stats"];
/// The console's files: a key that it is given goes where every client's key goes.
const CONSOLE: &str = "/console/";

/// Where there are keys, everything else needs one.
pub(crate) async fn guard(request: ServiceRequest, next: Next<impl MessageBody + 'static>) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let guarded = !WITHOUT_KEY.contains(&request.path()) && !request.path().starts_with(CONSOLE);
    if let Some(Gate(Some(keys))) = request.app_data::<Gate>().filter(|_| guarded) {
        match keys.holder_of(request.headers()) {
            Ok(holder) => drop(request.extensions_mut().insert(holder)),
            Err(refusal) => {
                count_unauthorized(&request);
                let mut response = refusal.error_response();
                if !request.method().is_safe() {
                    // Its body is not read: the connection ends with the answer, and says so.
                    response.head_mut().set_connection_type(ConnectionType::Close);
                }
                return Ok(request.into_response(response).map_into_right_body());
            }
        }
    }
    Ok(next.call(request).await?.map_into_left_body())
}

/// Whose the request is, as a number: 0 where there are no keys.
pub(crate) fn owner(request: &HttpRequest) -> u32 {
    request.extensions().get::<Arc<Holder>>().map_or_else(|| Key::default().number, |holder| holder.key().number)
}

/// A key that is none of ours, or none at all.
fn count_unauthorized(request: &ServiceRequest) {
    if let Some(Ok(metrics)) = request.app_data::<Data<Service>>().map(|service| service.metrics()) {
        metrics.refused(metrics::Refusal::Unauthorized);
    }
}

/// Who asks, if that key may ask now.
pub(crate) fn asking(request: &HttpRequest, service: &Service) -> Result<Key, Refusal> {
    let extensions = request.extensions();
    let Some(holder) = extensions.get::<Arc<Holder>>() else { return Ok(Key::default()) };
    holder.request(Instant::now()).map_err(|(wait, message)| {
        if let Ok(metrics) = service.metrics() {
            metrics.refused(metrics::Refusal::RateLimit);
        }
        let retry_after_s = wait.as_secs_f64().ceil() as u32;
        Refusal { code: Some("rate_limit_exceeded"), ..Refusal::new(Kind::Busy { retry_after_s }, message) }
    })?;
    Ok(holder.key().clone())
}
