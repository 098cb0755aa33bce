//! `/v1/responses`, as OpenAI shapes it.
//!
//! [`ask`] reads a body and [`input`] the conversation in it; [`events`] are the frames of a stream and the one body, [`items`] what both are
//! made of; [`store`] keeps answers for `previous_response_id`.

mod ask;
mod events;
mod input;
mod items;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use store::Store;

use crate::complete::{deliver, logged, read, unix_s};
use crate::guard::owner;
use crate::ids;
use crate::refusal::Refusal;
use crate::tag::Logged;
use actix_web::{HttpRequest, HttpResponse, web};
use actors::Service;
use ask::{Asked, not_found};
use events::{Events, Head, Keep};
use serde::Serialize;

/// What the core calls fields that have another name here.
const NAMES: [(&str, &str); 3] = [("messages", "input"), ("max_tokens", "max_output_tokens"), ("response_format", "text.format")];

pub(crate) async fn create(request: HttpRequest, payload: web::Payload, service: web::Data<Service>, store: web::Data<Store>) -> Result<HttpResponse, Refusal> {
    logged(&request, async |logged| answer(&request, payload, &service, store, logged).await.map_err(|refusal| refusal.renamed(&NAMES))).await
}

async fn answer(request: &HttpRequest, payload: web::Payload, service: &Service, store: web::Data<Store>, logged: &Logged) -> Result<HttpResponse, Refusal> {
    let key = owner(request);
    let asked = read(request, payload, service, |body, card| ask::read(body, card, |id| store.get(key, id))).await?;
    let Asked { wanted, echo, messages } = asked;
    let id = format!("resp_{}", ids::fresh());
    let head = Head { id: id.clone(), created_unix_s: unix_s(), model: service.card()?.id.clone(), echo };
    let keep = messages.map(|messages| Keep { store, key, messages });
    deliver(wanted, id, Box::new(Events::new(head, keep)), request, service, logged).await
}

/// An answer that is kept.
pub(crate) async fn kept(request: HttpRequest, id: web::Path<String>, store: web::Data<Store>) -> Result<HttpResponse, Refusal> {
    let stored = store.get(owner(&request), &id).ok_or_else(|| not_found("response_id"))?;
    Ok(HttpResponse::Ok().content_type("application/json").body(stored.body.clone()))
}

#[derive(Serialize)]
struct Deleted {
    id: String,
    object: &'static str,
    deleted: bool,
}

pub(crate) async fn delete(request: HttpRequest, id: web::Path<String>, store: web::Data<Store>) -> Result<HttpResponse, Refusal> {
    if !store.remove(owner(&request), &id) {
        return Err(not_found("response_id"));
    }
    Ok(HttpResponse::Ok().json(Deleted { id: id.into_inner(), object: "response", deleted: true }))
}
