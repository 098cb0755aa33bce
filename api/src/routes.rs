//! The routes, and what each does. Whatever goes wrong leaves as a [`Refusal`].

use crate::ask::{self, Shape};
use crate::body::{self, BodyLimit};
use crate::refusal::{Kind, Refusal};
use crate::stream::{Frames, begun, whole};
use crate::wire::{Head, Model, Voice};
use crate::{console, ids, tokens};
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use actix_web::middleware::{Next, from_fn};
use actix_web::{FromRequest, Handler, HttpMessage, HttpRequest, HttpResponse, Resource, Responder, web};
use actors::{Ask, RowStats, Service, Stats};
use serde::Serialize;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What a request goes by in logs and in its answer's `x-request-id`.
#[derive(Debug, Clone)]
struct RequestId(String);

/// Configures an `App` with every route. `body_limit_bytes` bounds a request's body.
pub fn app(service: Service, body_limit_bytes: usize) -> impl Fn(&mut web::ServiceConfig) + Clone {
    let service = web::Data::new(service);
    move |config| {
        let scope = web::scope("")
            .app_data(service.clone())
            .app_data(BodyLimit(body_limit_bytes))
            .wrap(from_fn(tag))
            .service(post("/v1/chat/completions", chat))
            .service(post("/v1/completions", text))
            .service(post("/tokenize", tokens::tokenize))
            .service(post("/detokenize", tokens::detokenize))
            .service(get("/v1/models", models))
            .service(get("/v1/models/{id:.*}", model))
            .service(get("/health", ready))
            .service(get("/readyz", ready))
            .service(get("/livez", live))
            .service(get("/metrics", metrics))
            .service(get("/stats", stats))
            .service(get("/", console::page))
            .service(get("/console/{name}", console::part))
            .default_service(web::to(no_route));
        config.service(scope);
    }
}

fn post<F, Args>(path: &str, handler: F) -> Resource
where
    F: Handler<Args>,
    Args: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    web::resource(path).route(web::post().to(handler)).default_service(web::to(|| async { no_method("POST") }))
}

/// `GET`, and `HEAD` for probes.
fn get<F, Args>(path: &str, handler: F) -> Resource
where
    F: Handler<Args>,
    Args: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    let resource = web::resource(path).route(web::get().to(handler.clone())).route(web::head().to(handler));
    resource.default_service(web::to(|| async { no_method("GET, HEAD") }))
}

fn no_method(allow: &'static str) -> Result<HttpResponse, Refusal> {
    Err(Refusal::new(Kind::Method(allow), format!("this route takes {allow} only")))
}

async fn no_route() -> Result<HttpResponse, Refusal> {
    Err(Refusal { code: Some("no_such_route"), ..Refusal::new(Kind::NotFound, "there is no such route") })
}

/// Gives the request its id, and one log line. Neither the path as sent nor a body is logged: both may hold what is nobody's business.
async fn tag(request: ServiceRequest, next: Next<impl MessageBody>) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let id = ids::of_client(request.headers().get(&X_REQUEST_ID)).unwrap_or_else(ids::fresh);
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = next.call(request).await?;
    let route = response.request().match_pattern().unwrap_or_default();
    tracing::info!(id, route, method = %response.request().method(), status = response.status().as_u16(), "answered");
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    Ok(response)
}

async fn chat(request: HttpRequest, payload: web::Payload, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    complete(Shape::Chat, request, payload, service).await
}

async fn text(request: HttpRequest, payload: web::Payload, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    complete(Shape::Text, request, payload, service).await
}

/// A client that leaves drops this future, or the stream it returned, and with either the answer: the row is freed.
async fn complete(shape: Shape, request: HttpRequest, payload: web::Payload, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    let body = body::json(&request, payload).await?;
    let card = service.card()?;
    let wanted = ask::read(shape, body, card)?;
    let prefix = match shape {
        Shape::Chat => "chatcmpl",
        Shape::Text => "cmpl",
    };
    // Ours even if the client sent an id: two answers must not share one.
    let head = Head { shape, id: format!("{prefix}-{}", ids::fresh()), created_unix_s: unix_s(), model: card.id.clone() };
    let id = request.extensions().get::<RequestId>().map_or_else(|| head.id.clone(), |id| id.0.clone());
    let mut answer = service.ask(Ask { id, prompt: wanted.prompt, params: wanted.params });
    begun(&mut answer).await?;
    if !wanted.stream {
        return Ok(HttpResponse::Ok().content_type("application/json").body(whole(answer, &head).await?));
    }
    let frames = Frames::new(answer, Voice::new(&head, wanted.include_usage));
    // The second header keeps nginx from collecting the stream before it passes it on.
    let mut response = HttpResponse::Ok();
    response.content_type("text/event-stream").insert_header((CACHE_CONTROL, "no-cache")).insert_header(("x-accel-buffering", "no"));
    Ok(response.streaming(frames))
}

/// Zero if the clock stands before 1970: a wrong date is no reason to refuse work.
fn unix_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

async fn models(service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    Ok(HttpResponse::Ok().json(Model::list(service.card()?)))
}

async fn model(name: web::Path<String>, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    ask::named(&name, service.card()?)?;
    Ok(HttpResponse::Ok().json(Model::new(service.card()?)))
}

async fn ready(service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    service.ready()?;
    Ok(said("ready"))
}

/// That this is answered at all is the answer.
async fn live() -> HttpResponse {
    said("alive")
}

fn said(status: &'static str) -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(format!(r#"{{"status":"{status}"}}"#))
}

async fn metrics(service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    let text = service.metrics()?.text();
    Ok(HttpResponse::Ok().content_type("text/plain; version=0.0.4; charset=utf-8").body(text))
}

/// What `/stats` shows: the service's counters, and a line for each request in the house.
#[derive(Serialize)]
struct Snapshot {
    #[serde(flatten)]
    stats: Stats,
    rows: Vec<RowStats>,
}

async fn stats(service: web::Data<Service>) -> HttpResponse {
    HttpResponse::Ok().json(Snapshot { stats: service.stats(), rows: service.rows() })
}
