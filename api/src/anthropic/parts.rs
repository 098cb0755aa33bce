//! What whole answers and streams have in common, and errors.

use crate::refusal::{Kind, Refusal};
use crate::voice::End;
use actors::{Finish, Usage};
use serde::Serialize;
use serde_json::{Value, json};

/// What every object of one answer repeats.
#[derive(Debug, Clone)]
pub(super) struct Head {
    /// `msg_…`.
    pub(super) id: String,
    pub(super) model: String,
    /// The request's stop strings: an answer says which one ended it.
    pub(super) stops: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct UsageOut {
    /// Without those that were there already.
    input_tokens: u32,
    cache_creation_input_tokens: u32,
    cache_read_input_tokens: u32,
    output_tokens: u32,
    output_tokens_details: Details,
}

#[derive(Debug, Serialize)]
struct Details {
    thinking_tokens: u32,
}

impl UsageOut {
    pub(super) fn new(usage: Usage, thinking_tokens: u32) -> UsageOut {
        UsageOut {
            input_tokens: usage.prompt_tokens.saturating_sub(usage.cached_tokens),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: usage.cached_tokens,
            output_tokens: usage.completion_tokens,
            output_tokens_details: Details { thinking_tokens },
        }
    }
}

/// Why an answer ended, and which stop string it was.
pub(super) fn reason<'a>(end: &End, stops: &'a [String]) -> (&'static str, Option<&'a str>) {
    match (end.finish, end.stop.and_then(|n| stops.get(n))) {
        (Finish::Length, _) => ("max_tokens", None),
        (Finish::Calls, _) => ("tool_use", None),
        (Finish::Stop, Some(stop)) => ("stop_sequence", Some(stop)),
        (Finish::Stop, None) => ("end_turn", None),
    }
}

/// No two calls of one conversation may share an id.
pub(super) fn call_id() -> String {
    format!("toolu_{}", crate::ids::fresh())
}

/// `{"type":"error","error":{…}}`.
pub(super) fn error(refusal: &Refusal, request_id: Option<&str>) -> Value {
    let class = match refusal.kind {
        Kind::NoKey => "authentication_error",
        Kind::Forbidden => "permission_error",
        Kind::NotFound => "not_found_error",
        Kind::TooLarge => "request_too_large",
        Kind::Invalid | Kind::Method(_) | Kind::Late | Kind::MediaType => "invalid_request_error",
        Kind::Busy { .. } => "rate_limit_error",
        Kind::Unavailable { .. } => "overloaded_error",
        Kind::Fault => "api_error",
    };
    let mut error = json!({"type": "error", "error": {"type": class, "message": refusal.message}});
    if let Some(id) = request_id {
        error["request_id"] = id.into();
    }
    error
}
