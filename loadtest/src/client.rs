//! One request, from its intended start to its end, timed as a client sees it.

use crate::chat::{self, Chunk, Message, Settings, Usage};
use crate::http::{Answer, Server};
use crate::load::keys::Keys;
use crate::outcome::{End, Failure, Outcome};
use crate::sse::Events;
use std::cell::Cell;
use std::time::{Duration, Instant};

const ENDPOINT: &str = "/v1/chat/completions";

/// A server that says that it is full but not for how long, or in a form that only clocks on both sides can read.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Who asks, and whom; the same for all requests.
pub struct Client {
    pub server: Server,
    pub settings: Settings,
    pub keys: Keys,
    /// Bounds one request from connecting to the last byte.
    pub timeout: Duration,
    /// How fast a slow reader reads.
    pub slow_bytes_per_s: f64,
}

/// What to ask.
pub struct Ask<'a> {
    pub index: usize,
    pub messages: &'a [Message],
    pub max_tokens: u32,
    pub seed: u64,
    pub key: usize,
    /// Leave after so many pieces of text.
    pub leave_after: Option<u32>,
    pub slow: bool,
    pub delayed: bool,
}

/// The run's clock, and what its watchers are told.
pub struct Clock<'a> {
    pub start: Instant,
    /// When this request is due.
    pub intended: Instant,
    /// Pieces of text of all requests so far.
    pub pieces: &'a Cell<u64>,
}

impl Client {
    /// Sends one request and reads its stream to the end, or leaves.
    pub async fn send(&self, ask: &Ask<'_>, clock: Clock<'_>) -> Outcome {
        let sent = Instant::now();
        let mut heard = Heard::new(clock.pieces);
        let end = match tokio::time::timeout(self.timeout, self.listen(ask, &mut heard)).await {
            Ok(Ok(end)) => end,
            Ok(Err(failure)) => End::Failed(failure),
            Err(_) => End::Failed(Failure::Timeout(format!("{} s have passed since it was sent", self.timeout.as_secs()))),
        };
        let ended = Instant::now();
        let since_start = |at: Instant| at.saturating_duration_since(clock.start);
        Outcome {
            index: ask.index,
            key: ask.key,
            slow: ask.slow,
            delayed: ask.delayed,
            leaves: ask.leave_after.is_some(),
            intended: since_start(clock.intended),
            sent: since_start(sent),
            first: heard.first.map(since_start),
            ended: since_start(ended),
            gaps_us: heard.gaps_us,
            pieces: heard.pieces,
            text: heard.text,
            usage: heard.usage,
            end,
        }
    }

    async fn listen(&self, ask: &Ask<'_>, heard: &mut Heard<'_>) -> Result<End, Failure> {
        let body = chat::body(&self.settings, ask.messages, ask.max_tokens, ask.seed);
        let slow = ask.slow.then_some(self.slow_bytes_per_s);
        let mut answer = self.server.post(ENDPOINT, self.keys.secret(ask.key), body, slow).await?;
        if !answer.status().is_success() {
            return self.turned_away(&mut answer).await;
        }
        let mut events = Events::default();
        let mut finish_reason = None;
        while let Some(bytes) = answer.next_bytes().await? {
            // When the bytes came, and not when what came before them was worked off.
            let now = Instant::now();
            events.take(&bytes).map_err(Failure::Malformed)?;
            while let Some(data) = events.next_data() {
                if data == "[DONE]" {
                    return Ok(End::Done { finish_reason });
                }
                let chunk = Chunk::parse(&data).map_err(|e| Failure::Malformed(self.keys.redact(format!("{e} in {data:.200}"))))?;
                if let Some(error) = chunk.error {
                    return Err(Failure::InStream(self.keys.redact(error)));
                }
                heard.usage = chunk.usage.map(|usage| usage.believed(ask.max_tokens)).or(heard.usage);
                finish_reason = chunk.finish_reason.or(finish_reason);
                if !chunk.text.is_empty() {
                    heard.piece(&chunk.text, now);
                    if ask.leave_after.is_some_and(|after| heard.pieces >= after) {
                        return Ok(End::Left);
                    }
                }
            }
        }
        Err(Failure::Cut("it ended without [DONE]".into()))
    }

    /// A refusal is one that says when to come again; all else is a failure.
    async fn turned_away(&self, answer: &mut Answer) -> Result<End, Failure> {
        let code = answer.status().as_u16();
        let retry_after = answer.headers().get("retry-after").cloned();
        let explanation = answer.explanation(&self.keys).await;
        match retry_after {
            Some(value) if code == 429 || code == 503 => {
                let seconds = value.to_str().ok().and_then(|text| text.trim().parse().ok());
                Ok(End::Refused { code, explanation, retry_after: seconds.map_or(RETRY_AFTER, Duration::from_secs) })
            }
            _ => Err(Failure::Status { code, explanation }),
        }
    }
}

/// What has been heard so far.
struct Heard<'a> {
    first: Option<Instant>,
    last: Option<Instant>,
    gaps_us: Vec<u32>,
    pieces: u32,
    text: String,
    usage: Option<Usage>,
    all_pieces: &'a Cell<u64>,
}

impl Heard<'_> {
    fn new(all_pieces: &Cell<u64>) -> Heard<'_> {
        Heard { first: None, last: None, gaps_us: Vec::new(), pieces: 0, text: String::new(), usage: None, all_pieces }
    }

    fn piece(&mut self, text: &str, now: Instant) {
        self.first.get_or_insert(now);
        if let Some(last) = self.last.replace(now) {
            self.gaps_us.push(u32::try_from((now - last).as_micros()).unwrap_or(u32::MAX));
        }
        self.pieces += 1;
        self.text.push_str(text);
        self.all_pieces.set(self.all_pieces.get() + 1);
    }
}
