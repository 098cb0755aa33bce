//! The routes, and what each does. Whatever goes wrong leaves as a [`Refusal`].

use crate::anthropic;
use crate::ask;
use crate::body::BodyLimit;
use crate::guard::{Gate, guard};
use crate::keys::Keys;
use crate::keys::gate::Holder;
use crate::openai::Model;
use crate::refusal::{Kind, Refusal};
use crate::responses;
use crate::tag::tag;
use crate::{complete, console, openapi, tokens};
use actix_web::middleware::from_fn;
use actix_web::{FromRequest, Handler, HttpMessage, HttpRequest, HttpResponse, Resource, Responder, web};
use actors::{Key, RowStats, Service, Stats};
use serde::Serialize;
use std::sync::Arc;

/// Configures an `App` with every route. `keys` say who may use the model, None: everybody. `body_limit_bytes` bounds a request's body.
pub fn app(service: Service, keys: Option<Arc<Keys>>, body_limit_bytes: usize) -> impl Fn(&mut web::ServiceConfig) + Clone {
    let service = web::Data::new(service);
    let store = web::Data::new(responses::Store::default());
    move |config| {
        let scope = web::scope("")
            .app_data(service.clone())
            .app_data(store.clone())
            .app_data(BodyLimit(body_limit_bytes))
            .app_data(Gate(keys.clone()))
            .wrap(from_fn(guard))
            .wrap(from_fn(tag))
            .wrap(from_fn(anthropic::shaped))
            .service(post("/v1/chat/completions", complete::chat))
            .service(post("/v1/completions", complete::text))
            .service(post("/v1/messages", anthropic::messages))
            .service(post("/v1/messages/count_tokens", anthropic::count_tokens))
            .service(post("/v1/responses", responses::create))
            .service(kept("/v1/responses/{id}"))
            .service(post("/tokenize", tokens::tokenize))
            .service(post("/detokenize", tokens::detokenize))
            .service(get("/v1/models", models))
            .service(get("/v1/models/{id:.*}", model))
            .service(get("/health", ready))
            .service(get("/readyz", ready))
            .service(get("/livez", live))
            .service(get("/metrics", metrics))
            .service(get("/stats", stats))
            .service(get("/openapi.json", openapi::document))
            .service(post("/admin/drain", drain))
            .service(post("/admin/flush", flush))
            .service(post("/v1/embeddings", embeddings))
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

/// An answer that is kept: shown or removed.
fn kept(path: &str) -> Resource {
    let shown = web::resource(path).route(web::get().to(responses::kept)).route(web::head().to(responses::kept));
    shown.route(web::delete().to(responses::delete)).default_service(web::to(|| async { no_method("GET, HEAD, DELETE") }))
}

fn no_method(allow: &'static str) -> Result<HttpResponse, Refusal> {
    Err(Refusal::new(Kind::Method(allow), format!("this route takes {allow} only")))
}

async fn no_route() -> Result<HttpResponse, Refusal> {
    Err(Refusal { code: Some("no_such_route"), ..Refusal::new(Kind::NotFound, "there is no such route") })
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

async fn metrics(request: HttpRequest, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    let metrics = service.metrics()?;
    // Before a key's first request, so that what that adds is seen as growth.
    match request.app_data::<Gate>() {
        Some(Gate(Some(keys))) => keys.names().iter().for_each(|name| drop(metrics.key(name))),
        _ => drop(metrics.key(&Key::default().name)),
    }
    let text = metrics.text();
    Ok(HttpResponse::Ok().content_type("text/plain; version=0.0.4; charset=utf-8").body(text))
}

/// Takes no new request from now on; those that are here go on to their end, and the process stays until it is told to stop.
async fn drain(request: HttpRequest, _body: web::Bytes, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    only_admins(&request)?;
    service.close();
    Ok(HttpResponse::Accepted().json(Draining { draining: true, requests: service.requests() }))
}

/// Forgets the prefixes that are kept for prompts to come.
async fn flush(request: HttpRequest, _body: web::Bytes, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    only_admins(&request)?;
    service.flush()?;
    Ok(HttpResponse::Accepted().json(Flushing { flushing: true }))
}

fn only_admins(request: &HttpRequest) -> Result<(), Refusal> {
    if request.extensions().get::<Arc<Holder>>().is_some_and(|holder| holder.is_admin()) {
        return Ok(());
    }
    let message = "this needs a key that the keys file marks with admin = true";
    Err(Refusal { code: Some("not_an_admin"), ..Refusal::new(Kind::Forbidden, message) })
}

/// Language models answer here, and none that is served makes embeddings.
async fn embeddings(service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    let message = format!("{} makes no embeddings: it is a language model; use /v1/chat/completions or /v1/completions", service.card()?.id);
    Err(Refusal { param: Some("model".into()), code: Some("no_embeddings"), ..Refusal::new(Kind::Invalid, message) })
}

#[derive(Serialize)]
struct Flushing {
    flushing: bool,
}

/// `requests` are in the house yet.
#[derive(Serialize)]
struct Draining {
    draining: bool,
    requests: u32,
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
