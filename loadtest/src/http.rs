//! Plain HTTP/1.1 to one server. Each request opens its own connection, so that a server that closes idle ones cannot fail a request.

use crate::load::keys::{Keys, Secret};
use crate::outcome::Failure;
use crate::socket::Socket;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

/// An error's body is read this far.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// The list of a server's models is not longer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What a slow reader's kernel holds for it; the least that Linux gives is a little more. With the usual buffer a slow reader's
/// server would not notice it.
const SLOW_BUFFER_BYTES: u32 = 4096;

/// Where the requests go: `http://host:port`, and the path before `/v1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    authority: String,
    prefix: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("{0}: https is not supported, the load test speaks plain http; give it the address behind the TLS proxy")]
    Tls(String),
    #[error("{0}: not a URL of the form http://HOST[:PORT]")]
    Malformed(String),
    /// Which would end in every report.
    #[error("the URL has a user or a password before its host; a key is given with --key")]
    Credentials,
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
        let rest = root.strip_prefix("http://").unwrap_or_default();
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(UrlError::Credentials);
        }
        let uri: Result<Uri, _> = root.parse();
        if authority.is_empty() || authority.starts_with(':') || uri.is_err() || rest.contains(['?', '#']) {
            return Err(UrlError::Malformed(url.to_owned()));
        }
        Ok(Base { authority: authority.to_owned(), prefix: prefix.to_owned() })
    }

    /// Where to connect to, port 80 unless the URL has another.
    fn host(&self) -> String {
        let last = self.authority.rsplit(']').next().unwrap_or_default();
        if last.contains(':') { self.authority.clone() } else { format!("{}:80", self.authority) }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.prefix)
    }
}

/// Talks to one server.
pub struct Server {
    base: Base,
    addresses: Vec<SocketAddr>,
}

/// An answer's head, and its body as it arrives. Dropping it closes the connection.
pub struct Answer {
    response: Response<Incoming>,
    /// Drives the connection.
    connection: JoinHandle<()>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Server {
    /// Looks the host's addresses up, once for all requests.
    pub async fn find(base: Base) -> io::Result<Server> {
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host(base.host()).await?.collect();
        if addresses.is_empty() { Err(io::Error::other("the host has no address")) } else { Ok(Server { base, addresses }) }
    }

    pub fn base(&self) -> &Base {
        &self.base
    }

    /// A whole answer's status and text.
    pub async fn get(&self, path: &str, key: Option<&Secret>, timeout: Duration) -> Result<(StatusCode, String), Failure> {
        let asking = async {
            let mut answer = self.send(Method::GET, path, key, Bytes::new(), None).await?;
            let status = answer.status();
            let body = Limited::new(answer.response.body_mut(), ANSWER_BYTES_MAX).collect().await.map_err(|e| Failure::Cut(e.to_string()))?;
            Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
        };
        let late = |_| Failure::Timeout(format!("no answer within {timeout:?}"));
        tokio::time::timeout(timeout, asking).await.map_err(late)?
    }

    /// Posts JSON. `slow`: reads so many bytes a second.
    pub async fn post(&self, path: &str, key: Option<&Secret>, json: Vec<u8>, slow: Option<f64>) -> Result<Answer, Failure> {
        self.send(Method::POST, path, key, json.into(), slow).await
    }

    async fn send(&self, method: Method, path: &str, key: Option<&Secret>, body: Bytes, slow: Option<f64>) -> Result<Answer, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base.prefix))
            .header("host", &self.base.authority)
            .header("connection", "close")
            .header("accept", "*/*")
            .header("user-agent", concat!("coxswain-loadtest/", env!("CARGO_PKG_VERSION")));
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {}", key.expose()));
        }
        let request = request.body(Full::new(body)).map_err(|e| Failure::Malformed(e.to_string()))?;
        let socket = self.connect(slow).await.map_err(|e| Failure::Connect(e.to_string()))?;
        let (mut sender, connection) = http1::handshake(socket).await.map_err(Failure::connecting)?;
        // Its failures reach whoever reads the answer, too.
        let connection = tokio::spawn(async move { drop(connection.await) });
        match sender.send_request(request).await {
            Ok(response) => Ok(Answer { response, connection }),
            Err(error) => {
                connection.abort();
                Err(Failure::connecting(error))
            }
        }
    }

    async fn connect(&self, slow: Option<f64>) -> io::Result<Socket> {
        let mut last = io::Error::other("the host has no address");
        for &address in &self.addresses {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            if slow.is_some() {
                socket.set_recv_buffer_size(SLOW_BUFFER_BYTES)?;
            }
            match socket.connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Socket::new(stream, slow));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Answer {
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The body's next bytes, once there are some; None at its end.
    pub async fn next_bytes(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match self.response.body_mut().frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(Failure::reading(&error)),
                // Trailers say nothing that is measured.
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// The beginning of a body that says what went wrong, without the secrets that it may repeat.
    pub async fn explanation(&mut self, keys: &Keys) -> String {
        let text = match Limited::new(self.response.body_mut(), ERROR_BYTES_MAX).collect().await {
            Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
            Err(error) => format!("its body cannot be read: {error}"),
        };
        explanation(self.status(), &keys.redact(text))
    }
}

/// A status and the first words of a body, on one line.
pub fn explanation(status: StatusCode, text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
    format!("{status}: {line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_may_be_the_root_or_the_endpoint() {
        for (url, expect, host) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://box/v1", "http://box", "box:80"),
            ("http://box/v1/", "http://box", "box:80"),
            ("http://box:1/v1/chat/completions", "http://box:1", "box:1"),
            ("http://box/behind/v1", "http://box/behind", "box:80"),
            ("http://[::1]:8080/v1", "http://[::1]:8080", "[::1]:8080"),
            ("http://[::1]", "http://[::1]", "[::1]:80"),
        ] {
            let base = Base::parse(url).unwrap();
            assert_eq!((base.to_string().as_str(), base.host().as_str()), (expect, host), "{url}");
        }
        assert!(matches!(Base::parse("https://box"), Err(UrlError::Tls(_))));
        for url in ["", "box:8080", "http://", "ftp://box", "http://a b", "http://box/?x=1", "http://:80", "http:///v1"] {
            assert!(matches!(Base::parse(url), Err(UrlError::Malformed(_))), "{url}");
        }
        let error = Base::parse("http://ann:hunter2@box").unwrap_err();
        assert_eq!(error, UrlError::Credentials);
        assert!(!error.to_string().contains("hunter2"));
    }
}
