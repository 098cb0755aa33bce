//! Reads a request's body: content type, size, JSON. Every failure is the client's, and a 4xx.

use crate::refusal::{Kind, Refusal};
use actix_web::http::header;
use actix_web::{HttpRequest, web};
use futures_util::StreamExt;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Bytes a body may have, kept as application data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) usize);

/// Most of what a body's announced length reserves before the bytes come.
const RESERVE_BYTES_MAX: u64 = 64 * 1024;
/// Time a client has between two pieces of its body, and for all of it: ten megabytes over a slow line.
const PIECE_TIMEOUT: Duration = Duration::from_secs(20);
const WHOLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Larger bodies are parsed on a thread of the blocking pool, a few at a time: parsing takes tens of milliseconds, which the other
/// streams of an HTTP worker should not wait for, and memory of many times their size.
const INLINE_BYTES_MAX: usize = 128 * 1024;
static ASIDE: Semaphore = Semaphore::const_new(2);
/// What a body's values may cost together. A parsed number takes some 30 bytes, an object some hundreds: whatever is allowed here
/// takes 100 MB or so, and is many times what any context holds.
const COST_MAX: usize = 1_000_000;
const OBJECT_COST: usize = 8;

/// The body as JSON.
pub(crate) async fn json(request: &HttpRequest, payload: web::Payload) -> Result<Value, Refusal> {
    check_headers(request)?;
    let limit = request.app_data::<BodyLimit>().map_or(crate::server::BODY_LIMIT_BYTES, |l| l.0);
    let whole = actix_web::rt::time::timeout(WHOLE_TIMEOUT, read(request, payload, limit)).await;
    let bytes = whole.map_err(|_| late(WHOLE_TIMEOUT))??;
    check_cost(&bytes)?;
    if bytes.len() <= INLINE_BYTES_MAX {
        return parse(&bytes);
    }
    // The semaphore is never closed; were it, the body would be parsed without a turn.
    let _turn = ASIDE.acquire().await;
    web::block(move || parse(&bytes)).await.map_err(|_| Refusal::new(Kind::Fault, "the body could not be parsed; the request may be sent again"))?
}

fn late(after: Duration) -> Refusal {
    Refusal::new(Kind::Late, format!("the body did not come within {} seconds", after.as_secs()))
}

/// Counts values before any is made. Commas and openings outside of strings tell how many there are.
pub(crate) fn check_cost(bytes: &[u8]) -> Result<(), Refusal> {
    let (mut cost, mut string, mut escaped) = (0usize, false, false);
    for byte in bytes {
        match (string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => string = !string,
            (false, b'{') => cost += OBJECT_COST,
            (false, b',' | b'[') => cost += 1,
            _ => {}
        }
    }
    if cost <= COST_MAX {
        return Ok(());
    }
    let message = format!("the body has too many values: at most {COST_MAX} are allowed, and an object counts {OBJECT_COST}");
    Err(Refusal::new(Kind::Invalid, message))
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
    while let Some(chunk) = actix_web::rt::time::timeout(PIECE_TIMEOUT, payload.next()).await.map_err(|_| late(PIECE_TIMEOUT))? {
        let chunk = chunk.map_err(|_| Refusal::new(Kind::Invalid, "the body ended before its announced length or is badly framed"))?;
        if bytes.len() + chunk.len() > limit {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// JSON of bounded depth (the parser stops at 128 levels, so no body can exhaust the stack).
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(bytes).map_err(|e| Refusal { code: Some("invalid_json"), ..Refusal::new(Kind::Invalid, format!("the body is not valid JSON: {e}")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[actix_web::test]
    async fn a_body_that_stops_coming_is_given_up() {
        // With nothing else to do, paused time goes on to the next deadline by itself.
        tokio::time::pause();
        let request = actix_web::test::TestRequest::default().insert_header((header::CONTENT_TYPE, "application/json")).to_http_request();
        let begun = futures_util::stream::iter([Ok(web::Bytes::from_static(b"{"))]).chain(futures_util::stream::pending());
        let stream: std::pin::Pin<Box<dyn futures_util::Stream<Item = Result<web::Bytes, actix_web::error::PayloadError>>>> = Box::pin(begun);
        let mut raw = actix_web::dev::Payload::Stream { payload: stream };
        let payload = <web::Payload as actix_web::FromRequest>::from_request(&request, &mut raw).await.unwrap();
        let refusal = json(&request, payload).await.unwrap_err();
        assert_eq!((refusal.kind, refusal.message.as_str()), (Kind::Late, "the body did not come within 20 seconds"));
    }

    #[test]
    fn many_values_are_refused_before_they_are_made() {
        let objects = format!("[{}0]", "{\"\":0},".repeat(COST_MAX / 8));
        let numbers = format!("[{}0]", "0,".repeat(COST_MAX));
        for body in [objects, numbers] {
            assert!(check_cost(body.as_bytes()).unwrap_err().message.contains("too many values"));
        }
        // A long text, with what looks like values in it, is one value.
        let text = format!("{{\"a\":\"{}\\\"{}\"}}", "{,[".repeat(100_000), "{,[".repeat(400_000));
        assert_eq!(check_cost(text.as_bytes()), Ok(()));
        assert!(parse(text.as_bytes()).is_ok());
    }

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
