//! The routes that make the model work: a body is read, asked for, and answered with the voice of its protocol.

use crate::ask::{self, Wanted};
use crate::guard::asking;
use crate::keys::gate::Holder;
use crate::openai::{Chunks, Head, Shape};
use crate::refusal::Refusal;
use crate::stream::{Frames, Told, begun, first, whole};
use crate::tag::{Logged, RequestId};
use crate::voice::Voice;
use crate::{body, ids};
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpMessage, HttpRequest, HttpResponse, ResponseError, web};
use actors::{Answer, Ask, Key, ModelCard, Service};
use futures_util::StreamExt;
use serde_json::Value;
use std::sync::Arc;

pub(crate) async fn chat(request: HttpRequest, payload: web::Payload, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    complete(Shape::Chat, request, payload, service).await
}

pub(crate) async fn text(request: HttpRequest, payload: web::Payload, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    complete(Shape::Text, request, payload, service).await
}

async fn complete(shape: Shape, request: HttpRequest, payload: web::Payload, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    logged(&request, async |logged| {
        let wanted = read(&request, payload, &service, |body, card| ask::read(shape, body, card)).await?;
        let prefix = match shape {
            Shape::Chat => "chatcmpl",
            Shape::Text => "cmpl",
        };
        // Ours even if the client sent an id: two answers must not share one.
        let head = Head { shape, id: format!("{prefix}-{}", ids::fresh()), created_unix_s: unix_s(), model: service.card()?.id.clone() };
        let id = head.id.clone();
        let voice = Chunks::new(head, wanted.n, wanted.include_usage, wanted.params.logprobs.is_some());
        deliver(wanted, id, Box::new(voice), &request, &service, logged).await
    })
    .await
}

/// What `answer` answers; a refusal has a log line from here, unless it has one already.
///
/// A client that leaves drops this future, or the stream it returned, and with either the answer: the row is freed.
pub(crate) async fn logged(request: &HttpRequest, answer: impl AsyncFnOnce(&Logged) -> Result<HttpResponse, Refusal>) -> Result<HttpResponse, Refusal> {
    let logged = request.extensions().get::<Logged>().cloned().unwrap_or_default();
    let answered = answer(&logged).await;
    if let Err(refusal) = &answered
        && !logged.0.replace(true)
    {
        let extensions = request.extensions();
        let (id, holder) = (extensions.get::<RequestId>().map(|id| id.0.as_str()), extensions.get::<Arc<Holder>>());
        let key = holder.map_or_else(|| Key::default().name, |holder| Arc::clone(&holder.key().name));
        let status = refusal.status_code().as_u16();
        tracing::info!(parent: None, id, key = &*key, finish = "refused", reason = refusal.code, param = refusal.param, status, "request");
    }
    answered
}

/// What a body asks for, as `read` reads it, or why it cannot be; counted as refused.
pub(crate) async fn read<T>(
    request: &HttpRequest,
    payload: web::Payload,
    service: &Service,
    read: impl FnOnce(Value, &ModelCard) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let read = match body::json(request, payload).await {
        Ok(body) => read(body, service.card()?),
        Err(refusal) => Err(refusal),
    };
    if read.is_err()
        && let Ok(metrics) = service.metrics()
    {
        metrics.refused(metrics::Refusal::Invalid);
    }
    read
}

/// Asks for what is wanted, and says it with this voice.
pub(crate) async fn deliver(
    wanted: Wanted,
    answer: String,
    mut voice: Box<dyn Voice>,
    request: &HttpRequest,
    service: &Service,
    logged: &Logged,
) -> Result<HttpResponse, Refusal> {
    let id = request.extensions().get::<RequestId>().map_or_else(|| answer.clone(), |id| id.0.clone());
    let key = asking(request, service)?;
    let Wanted { prompt, params, form, n, stream, .. } = wanted;
    let mut answers = service.ask_all(Ask { id, answer, key, prompt, params, form }, n);
    logged.0.set(answers.iter().all(Answer::is_logged));
    let mut prompt_tokens = 0;
    for answer in &mut answers {
        prompt_tokens = begun(answer).await?;
    }
    let choices = answers.len();
    let told = |(choice, answer): (u32, Answer)| answer.map(move |event| -> Told { (choice, event) });
    let mut events = futures_util::stream::select_all((0..).zip(answers).map(told));
    if !stream {
        let body = voice.whole(whole(events, choices).await?);
        return Ok(HttpResponse::Ok().content_type("application/json").body(body));
    }
    let first = first(&mut events).await?;
    let frames = Frames::new(futures_util::stream::iter(first).chain(events), voice, choices, prompt_tokens);
    // The second header keeps nginx from collecting the stream before it passes it on.
    let mut response = HttpResponse::Ok();
    response.content_type("text/event-stream").insert_header((CACHE_CONTROL, "no-cache")).insert_header(("x-accel-buffering", "no"));
    Ok(response.streaming(frames))
}

/// Zero if the clock stands before 1970: a wrong date is no reason to refuse work.
pub(crate) fn unix_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
