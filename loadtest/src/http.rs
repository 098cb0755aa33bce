//! Plain HTTP to one server. Each request opens its own connection, so that a server that closes idle ones cannot fail a request.

use std::fmt;
use std::io::BufReader;
use std::time::Duration;
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body, BodyReader};

/// An error's body is read this far.
const ERROR_BYTES_MAX: u64 = 64 << 10;

/// Where the requests go: `http://host:port`, without a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("{0}: https is not supported, the load test speaks plain http; give it the address behind the TLS proxy")]
    Tls(String),
    #[error("{0}: not a URL of the form http://HOST[:PORT]")]
    Malformed(String),
}

impl Base {
    /// Takes the server's root, its `/v1`, or the endpoint itself.
    pub fn parse(url: &str) -> Result<Base, UrlError> {
        if url.starts_with("https://") {
            return Err(UrlError::Tls(url.to_owned()));
        }
        let root = url.trim_end_matches('/');
        let root = root.strip_suffix("/chat/completions").unwrap_or(root);
        let root = root.strip_suffix("/v1").unwrap_or(root).trim_end_matches('/');
        let host = root.strip_prefix("http://").unwrap_or_default();
        let uri: Result<ureq::http::Uri, _> = root.parse();
        if host.is_empty() || uri.is_err() || host.contains(['?', '#']) {
            return Err(UrlError::Malformed(url.to_owned()));
        }
        Ok(Base(root.to_owned()))
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Talks to one server. Cheap to share between threads.
pub struct Server {
    agent: Agent,
    base: Base,
    key: Option<String>,
}

impl Server {
    /// `timeout` bounds one request from connecting to the last byte.
    pub fn new(base: Base, key: Option<String>, timeout: Duration) -> Server {
        let config =
            Agent::config_builder().http_status_as_error(false).max_idle_connections(0).max_redirects(0).proxy(None).timeout_global(Some(timeout)).build();
        Server { agent: config.new_agent(), base, key }
    }

    pub fn base(&self) -> &Base {
        &self.base
    }

    pub fn get(&self, path: &str) -> Result<Response<Body>, ureq::Error> {
        let mut request = self.agent.get(format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        request.call()
    }

    /// Posts JSON; the answer's body is read as it arrives.
    pub fn post(&self, path: &str, json: &[u8]) -> Result<Response<Body>, ureq::Error> {
        let mut request = self.agent.post(format!("{}{path}", self.base)).content_type("application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        request.send(json)
    }
}

/// The body as it arrives. Dropping it closes the connection.
pub fn stream(response: Response<Body>) -> BufReader<BodyReader<'static>> {
    BufReader::new(response.into_body().into_reader())
}

/// The beginning of a body that says what went wrong.
pub fn explanation(status: StatusCode, response: Response<Body>) -> String {
    let text = match response.into_body().with_config().limit(ERROR_BYTES_MAX).read_to_string() {
        Ok(text) => text,
        Err(error) => format!("its body cannot be read: {error}"),
    };
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
    format!("{status}: {line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_may_be_the_root_or_the_endpoint() {
        for (url, expect) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("http://box/v1", "http://box"),
            ("http://box/v1/", "http://box"),
            ("http://box:1/v1/chat/completions", "http://box:1"),
            ("http://box/behind/v1", "http://box/behind"),
        ] {
            assert_eq!(Base::parse(url).unwrap().to_string(), expect, "{url}");
        }
        assert!(matches!(Base::parse("https://box"), Err(UrlError::Tls(_))));
        for url in ["", "box:8080", "http://", "ftp://box", "http://a b", "http://box/?x=1"] {
            assert!(matches!(Base::parse(url), Err(UrlError::Malformed(_))), "{url}");
        }
    }
}
