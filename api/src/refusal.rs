//! Why a request is not answered, in the one error shape, and the one place that decides a status.

use actix_web::http::{StatusCode, header};
use actix_web::{HttpResponse, ResponseError};
use actors::Failure;
use serde::Serialize;

/// What kind of refusal; each has one status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Invalid,
    /// No key, or none of ours.
    NoKey,
    /// The key may not.
    Forbidden,
    NotFound,
    /// The methods that the route has.
    Method(&'static str),
    TooLarge,
    /// The body did not come in time.
    Late,
    MediaType,
    Busy {
        retry_after_s: u32,
    },
    Unavailable {
        retry_after_s: u32,
    },
    Fault,
}

/// A refusal on its way out. `message` says what was wrong with which field and what is allowed; it never speaks of the machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    /// The field, as a path: `messages[2].content`.
    pub(crate) param: Option<String>,
    pub(crate) code: Option<&'static str>,
}

impl Refusal {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Refusal {
        Refusal { kind, message: message.into(), param: None, code: None }
    }

    /// 400 for one field: `what` follows the field's name in the message.
    pub(crate) fn field(param: impl Into<String>, what: impl AsRef<str>) -> Refusal {
        let param = param.into();
        let message = if param.is_empty() { format!("the body {}", what.as_ref()) } else { format!("{param} {}", what.as_ref()) };
        let param = Some(param).filter(|p| !p.is_empty());
        Refusal { kind: Kind::Invalid, message, param, code: Some("invalid_value") }
    }

    /// 400 for a field that is known and not served: ignoring it would give an answer that was not asked for.
    pub(crate) fn unserved(param: impl Into<String>, allowed: &str) -> Refusal {
        let param = param.into();
        let message = format!("{param} is not supported by this server yet; {allowed}");
        Refusal { kind: Kind::Invalid, message, param: Some(param), code: Some("unsupported_parameter") }
    }

    /// The same, said of `param`.
    pub(crate) fn at(self, param: &str) -> Refusal {
        Refusal { param: Some(param.to_owned()), ..self }
    }

    /// With the field called what this protocol calls it: `names` are the core's and the protocol's.
    pub(crate) fn renamed(mut self, names: &[(&str, &str)]) -> Refusal {
        let Some((ours, theirs)) = names.iter().find(|(ours, _)| self.param.as_deref() == Some(*ours)) else { return self };
        self.param = Some((*theirs).to_owned());
        if let Some(rest) = self.message.strip_prefix(ours) {
            self.message = format!("{theirs}{rest}");
        }
        self
    }

    /// Whom the fault lies with, in OpenAI's words.
    fn class(&self) -> &'static str {
        match self.kind {
            Kind::NoKey => "authentication_error",
            Kind::Forbidden => "permission_error",
            Kind::Invalid | Kind::NotFound | Kind::Method(_) | Kind::TooLarge | Kind::Late | Kind::MediaType => "invalid_request_error",
            Kind::Busy { .. } => "rate_limit_error",
            Kind::Unavailable { .. } | Kind::Fault => "server_error",
        }
    }

    /// `{"error":{…}}`, also what a stream says when it fails after its first byte.
    pub(crate) fn json(&self) -> String {
        let error = Inner { message: &self.message, class: self.class(), param: self.param.as_deref(), code: self.code };
        serde_json::to_string(&Shape { error }).expect("strings always serialize")
    }
}

#[derive(Serialize)]
struct Shape<'a> {
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    class: &'static str,
    param: Option<&'a str>,
    code: Option<&'static str>,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        match failure {
            Failure::Invalid { param, code, message } => {
                Refusal { kind: Kind::Invalid, message, param: Some(param.to_owned()).filter(|p| !p.is_empty()), code: Some(code) }
            }
            Failure::Busy { message, retry_after_s } => Refusal { code: Some("busy"), ..Refusal::new(Kind::Busy { retry_after_s }, message) },
            Failure::Unavailable { message, retry_after_s } => {
                Refusal { code: Some("unavailable"), ..Refusal::new(Kind::Unavailable { retry_after_s }, message) }
            }
            Failure::Fault { message } => Refusal { code: Some("fault"), ..Refusal::new(Kind::Fault, message) },
        }
    }
}

impl ResponseError for Refusal {
    fn status_code(&self) -> StatusCode {
        match self.kind {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::NoKey => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::Late => StatusCode::REQUEST_TIMEOUT,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::Busy { .. } => StatusCode::TOO_MANY_REQUESTS,
            Kind::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Fault => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        match self.kind {
            Kind::Method(allow) => {
                response.insert_header((header::ALLOW, allow));
            }
            Kind::NoKey => {
                response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
            }
            // A client that is told 0 would come back at once and be refused again.
            Kind::Busy { retry_after_s } | Kind::Unavailable { retry_after_s } => {
                response.insert_header((header::RETRY_AFTER, retry_after_s.max(1)));
            }
            // The rest of the body is not worth reading: the connection ends with the answer.
            Kind::TooLarge | Kind::Late => {
                response.force_close();
            }
            _ => {}
        }
        let mut response = response.content_type("application/json").body(self.json());
        // Where another protocol's clients ask, what was refused is said once more in its own form.
        response.extensions_mut().insert(self.clone());
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_status_and_says_when_to_come_back() {
        let rows = [
            (Failure::Invalid { param: "max_tokens", code: "context_length_exceeded", message: "m".into() }, 400, None),
            (Failure::Busy { message: "m".into(), retry_after_s: 7 }, 429, Some("7")),
            (Failure::Unavailable { message: "m".into(), retry_after_s: 0 }, 503, Some("1")),
            (Failure::Fault { message: "m".into() }, 500, None),
        ];
        for (failure, status, retry) in rows {
            let response = Refusal::from(failure.clone()).error_response();
            assert_eq!(response.status().as_u16(), status, "{failure:?}");
            let header = response.headers().get(header::RETRY_AFTER).map(|v| v.to_str().unwrap());
            assert_eq!(header, retry, "{failure:?}");
        }
    }

    #[test]
    fn the_shape_is_openais() {
        let refusal = Refusal::field("stop[1]", "must be a \"string\"");
        assert_eq!(
            refusal.json(),
            r#"{"error":{"message":"stop[1] must be a \"string\"","type":"invalid_request_error","param":"stop[1]","code":"invalid_value"}}"#
        );
        let whole = Refusal::field("", "must be a JSON object").json();
        assert_eq!(whole, r#"{"error":{"message":"the body must be a JSON object","type":"invalid_request_error","param":null,"code":"invalid_value"}}"#);
    }
}
