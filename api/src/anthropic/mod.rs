//! `/v1/messages` and `/v1/messages/count_tokens`, as Anthropic shapes them.
//!
//! [`ask`] reads a body and [`messages`] the conversation in it; [`events`] are the frames of a stream and the one body, [`parts`] what both
//! have in common; [`shape`] gives errors on these routes their form.

mod ask;
mod events;
mod messages;
mod parts;
mod shape;
#[cfg(test)]
mod tests;

pub(crate) use shape::shaped;

use crate::complete::{deliver, logged, read};
use crate::refusal::Refusal;
use crate::tokens::aside;
use crate::{body, ids};
use actix_web::{HttpRequest, HttpResponse, web};
use actors::Service;
use events::Events;
use parts::Head;
use serde::Serialize;

/// What the core calls fields that have another name here.
const NAMES: [(&str, &str); 1] = [("response_format", "output_config.format")];

pub(crate) async fn messages(request: HttpRequest, payload: web::Payload, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    logged(&request, async |logged| {
        let wanted = read(&request, payload, &service, ask::read).await?;
        let id = format!("msg_{}", ids::fresh());
        let head = Head { id: id.clone(), model: service.card()?.id.clone(), stops: wanted.params.stop.clone() };
        deliver(wanted, id, Box::new(Events::new(head)), &request, &service, logged).await.map_err(|refusal| refusal.renamed(&NAMES))
    })
    .await
}

#[derive(Serialize)]
struct Counted {
    input_tokens: usize,
}

/// The tokens that a prompt would have.
pub(crate) async fn count_tokens(request: HttpRequest, payload: web::Payload, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    let prompt = ask::counted(body::json(&request, payload).await?, service.card()?)?;
    let ids = aside(move || service.tokens(prompt)).await?;
    Ok(HttpResponse::Ok().json(Counted { input_tokens: ids.len() }))
}
