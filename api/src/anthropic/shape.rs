//! Errors on these routes in Anthropic's form, whoever refuses: the guard, the router, or the handler.

use super::parts::error;
use crate::refusal::Refusal;
use crate::wire::json;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::HeaderName;
use actix_web::middleware::Next;

const OURS: HeaderName = HeaderName::from_static("x-request-id");
/// What Anthropic calls it.
const THEIRS: HeaderName = HeaderName::from_static("request-id");

/// Goes around everything else: a refusal travels with its response.
pub(crate) async fn shaped(request: ServiceRequest, next: Next<impl MessageBody + 'static>) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let path = request.path();
    if path != "/v1/messages" && !path.starts_with("/v1/messages/") {
        return Ok(next.call(request).await?.map_into_left_body());
    }
    let mut response = next.call(request).await?;
    let id = response.headers().get(OURS).cloned();
    if let Some(id) = &id {
        response.headers_mut().insert(THEIRS, id.clone());
    }
    let refusal = response.response().extensions().get::<Refusal>().cloned();
    match refusal {
        None => Ok(response.map_into_left_body()),
        Some(refusal) => {
            let body = json(&error(&refusal, id.as_ref().and_then(|id| id.to_str().ok())));
            Ok(response.map_body(|_, _| body).map_into_right_body())
        }
    }
}
