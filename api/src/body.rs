//! Reads a request's body: content type, size, JSON. Every failure is the client's, and a 4xx.

use crate::refusal::{Kind, Refusal};
use actix_web::http::header;
use actix_web::{HttpRequest, web};
use futures_util::StreamExt;
use serde_json::Value;

/// Bytes a body may have, kept as application data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) usize);

/// Most of what a body's announced length reserves before the bytes come.
const RESERVE_BYTES_MAX: u64 = 64 * 1024;

/// The body as JSON.
pub(crate) async fn json(request: &HttpRequest, payload: web::Payload) -> Result<Value, Refusal> {
    check_headers(request)?;
    let limit = request.app_data::<BodyLimit>().map_or(crate::server::BODY_LIMIT_BYTES, |l| l.0);
    parse(&read(request, payload, limit).await?)
}

/// Only `application/json`: a browser may send the other types from a foreign page without asking first.
fn check_headers(request: &HttpRequest) -> Result<(), Refusal> {
    let head = |name| request.headers().get(name).map(|v| v.to_str().unwrap_or("").trim().to_ascii_lowercase());
    let kind = head(header::CONTENT_TYPE).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or("").trim();
    if essence != "application/json" {
        return Err(Refusal::new(Kind::MediaType, "content-type must be application/json"));
    }
    match head(header::CONTENT_ENCODING).as_deref() {
        None | Some("" | "identity") => Ok(()),
        Some(_) => Err(Refusal::new(Kind::MediaType, "content-encoding must be absent or identity")),
    }
}

async fn read(request: &HttpRequest, mut payload: web::Payload, limit: usize) -> Result<Vec<u8>, Refusal> {
    let too_large = || Refusal::new(Kind::TooLarge, format!("the body must not be larger than {limit} bytes"));
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    if announced.is_some_and(|n| n > limit as u64) {
        return Err(too_large());
    }
    // An announcement costs the client nothing: it may reserve little.
    let mut bytes = Vec::with_capacity(announced.map_or(0, |n| n.min(RESERVE_BYTES_MAX) as usize));
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|_| Refusal::new(Kind::Invalid, "the body ended before its announced length or is badly framed"))?;
        if bytes.len() + chunk.len() > limit {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// JSON of bounded depth (the parser stops at 128 levels, so no body can exhaust the stack).
fn parse(bytes: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(bytes).map_err(|e| Refusal { code: Some("invalid_json"), ..Refusal::new(Kind::Invalid, format!("the body is not valid JSON: {e}")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_json_says_where() {
        let deep = "[".repeat(100_000);
        let rows: [(&[u8], &str); 9] = [
            (b"", "line 1 column 0"),
            (b"{\"a\":1,}", "line 1 column 8"),
            (b"{\n\"a\": x\n}", "line 2 column 6"),
            (b"{\"a\":1} x", "line 1 column 9"),
            (b"{\"a\":\"\xff\"}", "line 1 column 7"),
            (b"{\"a\":\"\\ud800\"}", "line 1 column 13"),
            (b"{\"a\":1e999}", "line 1 column 10"),
            (b"{\"a\":NaN}", "line 1 column 6"),
            (deep.as_bytes(), "line 1 column 128"),
        ];
        for (bytes, place) in rows {
            let refusal = parse(bytes).unwrap_err();
            assert_eq!((refusal.kind.clone(), refusal.code), (Kind::Invalid, Some("invalid_json")));
            assert!(refusal.message.contains(place), "{:?} → {}", String::from_utf8_lossy(&bytes[..bytes.len().min(30)]), refusal.message);
        }
    }
}
