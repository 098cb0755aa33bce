//! What came of one request.

use crate::chat::Usage;
use std::error::Error;
use std::io;
use std::time::Duration;

/// Times count from the start of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Among all requests of the run, warm-up included.
    pub index: usize,
    /// Of its key.
    pub key: usize,
    pub slow: bool,
    /// It had to wait until fewer were in flight.
    pub delayed: bool,
    /// Its client was told to leave, which it does if the answer is long enough.
    pub leaves: bool,
    /// When it was due. Latency counts from here, whenever it was sent.
    pub intended: Duration,
    /// When its client began to connect.
    pub sent: Duration,
    /// When its first text came; None if there was none.
    pub first: Option<Duration>,
    pub ended: Duration,
    /// Between pieces of text, microseconds. A piece is a token for most servers, never less.
    pub gaps_us: Vec<u32>,
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
    /// The server had no place and said when to come again: 429 or 503 with Retry-After. Above capacity that is the right answer.
    Refused {
        code: u16,
        explanation: String,
        retry_after: Duration,
    },
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
    pub(crate) fn connecting(error: hyper::Error) -> Failure {
        if error.is_parse() { Failure::Malformed(in_words(&error)) } else { Failure::Connect(in_words(&error)) }
    }

    /// While the answer came.
    pub(crate) fn reading(error: &hyper::Error) -> Failure {
        let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        match io.map(io::Error::kind) {
            // hyper's words for a transfer coding that it cannot read.
            Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => Failure::Malformed(in_words(error)),
            _ => Failure::Cut(in_words(error)),
        }
    }
}

/// An error with what lies behind it.
fn in_words(error: &hyper::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.contains(&cause_words) {
            words = format!("{words}: {cause_words}");
        }
        source = cause.source();
    }
    words
}

impl Outcome {
    pub fn done(&self) -> bool {
        matches!(self.end, End::Done { .. })
    }

    /// Tokens of the answer, as the server counts them, or pieces of text.
    pub fn output_tokens(&self) -> u32 {
        self.usage.and_then(|usage| usage.completion_tokens).unwrap_or(self.pieces)
    }

    /// To the first text.
    pub fn ttft(&self) -> Option<Duration> {
        self.first.map(|first| first.saturating_sub(self.intended))
    }

    /// To the end, however it came.
    pub fn whole(&self) -> Duration {
        self.ended.saturating_sub(self.intended)
    }

    /// From the first text to the end, over the tokens after the first.
    pub fn per_output_token(&self) -> Option<Duration> {
        let more = self.output_tokens().checked_sub(1).filter(|&n| n > 0)?;
        Some(self.ended.saturating_sub(self.first?) / more)
    }

    /// Mean time between pieces of text.
    pub fn mean_gap(&self) -> Option<Duration> {
        let sum: u64 = self.gaps_us.iter().map(|&us| u64::from(us)).sum();
        (!self.gaps_us.is_empty()).then(|| Duration::from_micros(sum) / self.gaps_us.len() as u32)
    }

    /// When each piece of text came.
    pub fn piece_times(&self) -> impl Iterator<Item = Duration> + '_ {
        let gaps = self.gaps_us.iter().scan(self.first.unwrap_or_default(), |at, &us| {
            *at += Duration::from_micros(u64::from(us));
            Some(*at)
        });
        self.first.into_iter().chain(gaps)
    }
}
