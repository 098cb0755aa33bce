//! One request, from its intended start to its end, timed as a client sees it.

use crate::chat::{self, Chunk, Message, Settings, Usage};
use crate::http::{self, Server};
use crate::sse::Events;
use std::io;
use std::time::{Duration, Instant};

const ENDPOINT: &str = "/v1/chat/completions";

/// What to ask.
pub struct Ask<'a> {
    pub settings: &'a Settings,
    pub messages: &'a [Message],
    pub seed: u64,
    /// Leave after so many pieces of text.
    pub leave_after: Option<u32>,
}

/// What came of it. Durations count from the intended start.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// To the first piece of text; None if there was none.
    pub first_text: Option<Duration>,
    /// Between pieces of text. A piece is a token for most servers, never less.
    pub gaps: Vec<Duration>,
    /// To the end, however it came.
    pub whole: Duration,
    /// Pieces of text.
    pub pieces: u32,
    pub text: String,
    pub usage: Option<Usage>,
    pub end: End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The stream came to its `[DONE]`.
    Done {
        finish_reason: Option<String>,
    },
    /// This client left, as it was told to.
    Left,
    Failed(Failure),
}

/// Why a request failed; `kind` groups them in the report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("no connection: {0}")]
    Connect(String),
    #[error("status {explanation}")]
    Status { code: u16, explanation: String },
    #[error("not finished in time: {0}")]
    Timeout(String),
    /// The connection ended before the stream did.
    #[error("stream cut: {0}")]
    Cut(String),
    #[error("not a chat chunk: {0}")]
    Malformed(String),
    /// The server said so inside the stream.
    #[error("error in the stream: {0}")]
    InStream(String),
}

impl Failure {
    pub fn kind(&self) -> String {
        match self {
            Failure::Connect(_) => "connect".into(),
            Failure::Status { code, .. } => format!("status_{code}"),
            Failure::Timeout(_) => "timeout".into(),
            Failure::Cut(_) => "cut".into(),
            Failure::Malformed(_) => "malformed".into(),
            Failure::InStream(_) => "error_in_stream".into(),
        }
    }

    /// Before the answer began.
    fn connecting(error: ureq::Error) -> Failure {
        match error {
            ureq::Error::Timeout(_) => Failure::Timeout(error.to_string()),
            ureq::Error::Protocol(_) => Failure::Malformed(error.to_string()),
            _ => Failure::Connect(error.to_string()),
        }
    }

    /// While the answer came.
    fn reading(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::TimedOut => Failure::Timeout(error.to_string()),
            io::ErrorKind::InvalidData => Failure::Malformed(error.to_string()),
            _ => Failure::Cut(error.to_string()),
        }
    }
}

/// Sends one request and reads its stream to the end, or leaves.
pub fn send(server: &Server, ask: &Ask, intended: Instant) -> Outcome {
    let mut heard = Heard::new(intended);
    let end = match listen(server, ask, &mut heard) {
        Ok(end) => end,
        Err(failure) => End::Failed(failure),
    };
    heard.finish(end)
}

fn listen(server: &Server, ask: &Ask, heard: &mut Heard) -> Result<End, Failure> {
    let body = chat::body(ask.settings, ask.messages, ask.seed);
    let response = server.post(ENDPOINT, &body).map_err(Failure::connecting)?;
    let status = response.status();
    if !status.is_success() {
        let explanation = http::explanation(status, response);
        return Err(Failure::Status { code: status.as_u16(), explanation });
    }
    let mut events = Events::new(http::stream(response));
    let mut finish_reason = None;
    while let Some(data) = events.next_data().map_err(Failure::reading)? {
        if data == "[DONE]" {
            return Ok(End::Done { finish_reason });
        }
        let chunk = Chunk::parse(&data).map_err(|e| Failure::Malformed(format!("{e} in {data:.200}")))?;
        if let Some(error) = chunk.error {
            return Err(Failure::InStream(error));
        }
        heard.usage = chunk.usage.or(heard.usage);
        finish_reason = chunk.finish_reason.or(finish_reason);
        if !chunk.text.is_empty() {
            heard.piece(&chunk.text);
            if ask.leave_after.is_some_and(|after| heard.pieces >= after) {
                return Ok(End::Left);
            }
        }
    }
    Err(Failure::Cut("it ended without [DONE]".into()))
}

/// What has been heard so far.
struct Heard {
    intended: Instant,
    first: Option<Instant>,
    last: Option<Instant>,
    gaps: Vec<Duration>,
    pieces: u32,
    text: String,
    usage: Option<Usage>,
}

impl Heard {
    fn new(intended: Instant) -> Heard {
        Heard { intended, first: None, last: None, gaps: Vec::new(), pieces: 0, text: String::new(), usage: None }
    }

    fn piece(&mut self, text: &str) {
        let now = Instant::now();
        self.first.get_or_insert(now);
        if let Some(last) = self.last.replace(now) {
            self.gaps.push(now - last);
        }
        self.pieces += 1;
        self.text.push_str(text);
    }

    fn finish(self, end: End) -> Outcome {
        Outcome {
            first_text: self.first.map(|first| first - self.intended),
            gaps: self.gaps,
            whole: self.intended.elapsed(),
            pieces: self.pieces,
            text: self.text,
            usage: self.usage,
            end,
        }
    }
}
