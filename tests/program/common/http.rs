//! A client of one request a connection: HTTP/1.1 by hand, so that a test decides when to read and when to hang up.

use super::PATIENCE;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A response whose head is read. Dropping it hangs up.
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: Vec<String>,
    body: Body,
    /// Bytes of a stream that are read and not yet given out.
    pending: Vec<u8>,
}

struct Body {
    from: BufReader<TcpStream>,
    /// Bytes to come; None: in chunks.
    left: Option<usize>,
}

/// What a whole answer said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) finish: String,
    pub(crate) seed: u64,
    pub(crate) preemptions: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) completion_tokens: u64,
    pub(crate) ttft_ms: f64,
}

/// Sends a request and gives the open connection, nothing of the answer read.
pub(crate) fn begin(addr: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> io::Result<TcpStream> {
    let mut to = TcpStream::connect_timeout(&addr, PATIENCE)?;
    to.set_read_timeout(Some(PATIENCE))?;
    to.set_write_timeout(Some(PATIENCE))?;
    let body = body.map_or_else(String::new, Value::to_string);
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    to.write_all((head + &body).as_bytes())?;
    Ok(to)
}

/// Sends a request and reads the answer's head.
pub(crate) fn send(addr: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> io::Result<Reply> {
    let mut from = BufReader::new(begin(addr, method, path, body)?);
    let mut head = Vec::new();
    loop {
        let line = line(&mut from)?;
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let status = head.first().and_then(|l| l.split(' ').nth(1)).and_then(|s| s.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no status line: {head:?}")))?;
    let mut reply = Reply { status, head, body: Body { from, left: None }, pending: Vec::new() };
    if reply.header("transfer-encoding").is_none() {
        reply.body.left = Some(reply.header("content-length").map_or(0, |n| n.parse().unwrap()));
    }
    Ok(reply)
}

fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

impl Body {
    /// The next piece; None after the last.
    fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(left) = self.left else { return self.chunk() };
        let mut bytes = vec![0; left];
        self.from.read_exact(&mut bytes)?;
        self.left = Some(0);
        Ok(Some(bytes).filter(|b| !b.is_empty()))
    }

    fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = line(&mut self.from)?;
        let size = usize::from_str_radix(&size, 16).map_err(|_| io::Error::other(format!("no chunk size: {size:?}")))?;
        let mut bytes = vec![0; size];
        self.from.read_exact(&mut bytes)?;
        line(&mut self.from)?;
        Ok(Some(bytes).filter(|b| !b.is_empty()))
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().skip(1).filter_map(|l| l.split_once(':')).find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim())
    }

    /// The data of the next event of a stream; None at its end. Comments are passed over.
    pub(crate) fn event(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.pending.windows(2).position(|w| w == b"\n\n") {
                let frame = String::from_utf8(self.pending.drain(..end + 2).collect()).unwrap();
                match frame.trim_end().strip_prefix("data: ") {
                    Some(data) => return Ok(Some(data.to_owned())),
                    None => assert!(frame.starts_with(':'), "neither data nor a comment: {frame:?}"),
                }
                continue;
            }
            match self.body.piece()? {
                Some(piece) => self.pending.extend(piece),
                None if self.pending.is_empty() => return Ok(None),
                None => return Err(io::Error::other(format!("half an event at the end: {:?}", String::from_utf8_lossy(&self.pending)))),
            }
        }
    }

    /// Reads until `count` pieces of text have come.
    pub(crate) fn texts(&mut self, count: usize) -> String {
        let mut all = String::new();
        let mut come = 0;
        while come < count {
            let event = self.event().unwrap().unwrap_or_else(|| panic!("ended after {come} of {count} texts"));
            let piece = text_of(&event);
            come += usize::from(!piece.is_empty());
            all += &piece;
        }
        all
    }

    /// Reads a stream to its end: its text, its reason, and whether the end mark was the last event.
    pub(crate) fn rest(&mut self) -> (String, String, bool) {
        let (mut text, mut finish, mut done) = (String::new(), String::new(), false);
        while let Some(event) = self.event().unwrap() {
            assert!(!done, "after the end mark: {event}");
            if event == "[DONE]" {
                done = true;
                continue;
            }
            text += &text_of(&event);
            let event: Value = serde_json::from_str(&event).unwrap();
            if let Some(reason) = event["choices"][0]["finish_reason"].as_str() {
                finish = reason.to_owned();
            }
        }
        (text, finish, done)
    }

    pub(crate) fn body(&mut self) -> String {
        let mut all = Vec::new();
        while let Some(piece) = self.body.piece().unwrap() {
            all.extend(piece);
        }
        String::from_utf8(all).unwrap()
    }

    pub(crate) fn json(&mut self) -> Value {
        let body = self.body();
        serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e}: {body}"))
    }

    /// A whole answer; anything but 200 fails.
    pub(crate) fn answer(mut self) -> Answer {
        let body = self.json();
        assert_eq!(self.status, 200, "{body}");
        let choice = &body["choices"][0];
        let text = choice["message"]["content"].as_str().or(choice["text"].as_str()).unwrap();
        Answer {
            text: text.to_owned(),
            finish: choice["finish_reason"].as_str().unwrap().to_owned(),
            seed: body["coxswain"]["seed"].as_u64().unwrap(),
            preemptions: body["coxswain"]["preemptions"].as_u64().unwrap(),
            ttft_ms: body["coxswain"]["ttft_ms"].as_f64().unwrap(),
            prompt_tokens: body["usage"]["prompt_tokens"].as_u64().unwrap(),
            cached_tokens: body["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap(),
            completion_tokens: body["usage"]["completion_tokens"].as_u64().unwrap(),
        }
    }
}

/// The text in a chunk of a chat or a completion; empty where there is none.
fn text_of(event: &str) -> String {
    let event: Value = serde_json::from_str(event).unwrap_or_else(|e| panic!("{e}: {event}"));
    let choice = &event["choices"][0];
    choice["delta"]["content"].as_str().or(choice["text"].as_str()).unwrap_or_default().to_owned()
}
