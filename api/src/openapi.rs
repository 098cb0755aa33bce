//! `/openapi.json`: every route, what it takes and what it answers, in the words that machines read.
//!
//! The document is written by hand, in `api/openapi.json`. A test holds it against the routes and the fields that are read, and
//! `tests/clients` asks a live service for what it promises.

use actix_web::HttpResponse;

const DOCUMENT: &str = include_str!("../openapi.json");

pub(crate) async fn document() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(DOCUMENT)
}
