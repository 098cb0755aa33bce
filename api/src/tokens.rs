//! `/tokenize` and `/detokenize`: the served model's tokenizer, in vLLM's shapes.

use crate::refusal::{Kind, Refusal};
use crate::{ask, body, fields::Fields};
use actix_web::{HttpRequest, HttpResponse, web};
use actors::{Failure, Service};
use serde::Serialize;

#[derive(Serialize)]
struct Tokens<'a> {
    count: usize,
    max_model_len: u32,
    tokens: &'a [u32],
}

#[derive(Serialize)]
struct Prompt {
    prompt: String,
}

/// Text to ids, with the special tokens that a plain prompt gets.
pub(crate) async fn tokenize(request: HttpRequest, payload: web::Payload, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    let mut fields = Fields::new("", body::json(&request, payload).await?)?;
    ask::model(&mut fields, service.card()?)?;
    let text = fields.text("prompt")?.ok_or_else(|| Refusal::field("prompt", "must be a string, not null or absent"))?;
    let max_model_len = service.card()?.context_length;
    let ids = aside(move || service.encode(&text)).await?;
    Ok(HttpResponse::Ok().json(Tokens { count: ids.len(), max_model_len, tokens: &ids }))
}

/// Ids to text.
pub(crate) async fn detokenize(request: HttpRequest, payload: web::Payload, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    let mut fields = Fields::new("", body::json(&request, payload).await?)?;
    ask::model(&mut fields, service.card()?)?;
    let list = fields.list("tokens")?.ok_or_else(|| Refusal::field("tokens", "must be an array of token ids, not null or absent"))?;
    let ids = ask::ids_of("tokens", &list)?;
    let prompt = aside(move || service.decode(&ids)).await?;
    Ok(HttpResponse::Ok().json(Prompt { prompt }))
}

/// A long text takes the tokenizer a while: on another thread, so that the streams of this one do not wait.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T, Failure> + Send + 'static) -> Result<T, Refusal> {
    let done = web::block(work).await.map_err(|_| Refusal::new(Kind::Fault, "the tokenizer failed; the request may be sent again"))?;
    Ok(done?)
}
