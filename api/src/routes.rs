//! The routes, and what each does. Whatever goes wrong leaves as a [`Refusal`].

use crate::ask::{self, Shape, Wanted};
use crate::body::{self, BodyLimit};
use crate::keys::Keys;
use crate::keys::gate::Holder;
use crate::refusal::{Kind, Refusal};
use crate::stream::{Frames, begun, first, whole};
use crate::wire::{Head, Model, Voice};
use crate::{console, ids, tokens};
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::ConnectionType;
use actix_web::http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use actix_web::middleware::{Next, from_fn};
use actix_web::{FromRequest, Handler, HttpMessage, HttpRequest, HttpResponse, Resource, Responder, ResponseError, web};
use actors::{Ask, Key, RowStats, Service, Stats};
use futures_util::StreamExt;
use serde::Serialize;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What a request goes by in logs and in its answer's `x-request-id`.
#[derive(Debug, Clone)]
struct RequestId(String);

/// The request has its log line from whoever answers it.
#[derive(Debug, Clone, Default)]
struct Logged(Rc<Cell<bool>>);

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

/// The gate of an app that has keys.
struct Gate(Option<Arc<Keys>>);

/// Configures an `App` with every route. `keys` say who may use the model, None: everybody. `body_limit_bytes` bounds a request's body.
pub fn app(service: Service, keys: Option<Arc<Keys>>, body_limit_bytes: usize) -> impl Fn(&mut web::ServiceConfig) + Clone {
    let service = web::Data::new(service);
    move |config| {
        let scope = web::scope("")
            .app_data(service.clone())
            .app_data(BodyLimit(body_limit_bytes))
            .app_data(Gate(keys.clone()))
            .wrap(from_fn(guard))
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
            .service(post("/admin/drain", drain))
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

/// Gives the request its id, and one log line unless it gets one elsewhere. Neither the path as sent nor a body is logged: both may hold what is nobody's business.
async fn tag(request: ServiceRequest, next: Next<impl MessageBody>) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
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

/// What tells of the service: a probe and a scraper have no key. Compared with the path as it was sent, so that no spelling of another
/// path is one of these.
const WITHOUT_KEY: [&str; 6] = ["/health", "/livez", "/readyz", "/metrics", "/stats", "/"];
/// Of these, those that are asked for over and over.
const WATCHED: [&str; 5] = ["/health", "/livez", "/readyz", "/metrics", "/stats"];
/// The console's files: a key that it is given goes where every client's key goes.
const CONSOLE: &str = "/console/";

/// Where there are keys, everything else needs one.
async fn guard(request: ServiceRequest, next: Next<impl MessageBody + 'static>) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let guarded = !WITHOUT_KEY.contains(&request.path()) && !request.path().starts_with(CONSOLE);
    if let Some(Gate(Some(keys))) = request.app_data::<Gate>().filter(|_| guarded) {
        match keys.holder_of(request.headers()) {
            Ok(holder) => drop(request.extensions_mut().insert(holder)),
            Err(refusal) => {
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

/// Who asks, if that key may ask now.
fn asking(request: &HttpRequest, service: &Service) -> Result<Key, Refusal> {
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

/// OpenTelemetry's span of an HTTP server, under the client's trace if it sent one.
fn server_span(request: &ServiceRequest) -> Span {
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

async fn chat(request: HttpRequest, payload: web::Payload, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    complete(Shape::Chat, request, payload, service).await
}

async fn text(request: HttpRequest, payload: web::Payload, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    complete(Shape::Text, request, payload, service).await
}

/// A client that leaves drops this future, or the stream it returned, and with either the answer: the row is freed.
async fn complete(shape: Shape, request: HttpRequest, payload: web::Payload, service: web::Data<Service>) -> Result<HttpResponse, Refusal> {
    let logged = request.extensions().get::<Logged>().cloned().unwrap_or_default();
    let answered = answer(shape, &request, payload, &service, &logged).await;
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

/// What was wanted, or why it cannot be; counted as refused.
async fn wanted(shape: Shape, request: &HttpRequest, payload: web::Payload, service: &Service) -> Result<Wanted, Refusal> {
    let read = match body::json(request, payload).await {
        Ok(body) => ask::read(shape, body, service.card()?),
        Err(refusal) => Err(refusal),
    };
    if read.is_err()
        && let Ok(metrics) = service.metrics()
    {
        metrics.refused(metrics::Refusal::Invalid);
    }
    read
}

async fn answer(shape: Shape, request: &HttpRequest, payload: web::Payload, service: &Service, logged: &Logged) -> Result<HttpResponse, Refusal> {
    let wanted = wanted(shape, request, payload, service).await?;
    let card = service.card()?;
    let prefix = match shape {
        Shape::Chat => "chatcmpl",
        Shape::Text => "cmpl",
    };
    // Ours even if the client sent an id: two answers must not share one.
    let head = Head { shape, id: format!("{prefix}-{}", ids::fresh()), created_unix_s: unix_s(), model: card.id.clone() };
    let id = request.extensions().get::<RequestId>().map_or_else(|| head.id.clone(), |id| id.0.clone());
    let key = asking(request, service)?;
    let mut answer = service.ask(Ask { id, answer: head.id.clone(), key, prompt: wanted.prompt, params: wanted.params });
    logged.0.set(answer.is_logged());
    begun(&mut answer).await?;
    if !wanted.stream {
        return Ok(HttpResponse::Ok().content_type("application/json").body(whole(answer, &head).await?));
    }
    let first = first(&mut answer).await?;
    let frames = Frames::new(futures_util::stream::iter(first).chain(answer), Voice::new(&head, wanted.include_usage));
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
    let admin = request.extensions().get::<Arc<Holder>>().is_some_and(|holder| holder.is_admin());
    if !admin {
        let message = "this needs a key that the keys file marks with admin = true";
        return Err(Refusal { code: Some("not_an_admin"), ..Refusal::new(Kind::Forbidden, message) });
    }
    service.close();
    Ok(HttpResponse::Accepted().json(Draining { draining: true, requests: service.requests() }))
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
