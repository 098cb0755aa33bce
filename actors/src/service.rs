//! The one handle to the running service. It is cheap to clone, and nothing here blocks.

use crate::answer::Answer;
use crate::ask::{Ask, Failure, Prompt, Reasoning};
use crate::messages::{Cut, Drain, Flush};
use crate::options::Options;
use crate::prompt;
use crate::request::{Desk, Permits, Request};
use crate::rows::RowStats;
use crate::stats::{Stats, WorkerState};
use actix::Actor;
use kv::SeqId;
use metrics::{Metrics, Refusal};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// Events that an answer has beside its texts (`Began`, the last word), generously.
const EVENTS_BESIDE_TEXT: usize = 8;
/// What a client is told while the service shuts down: long enough for another instance to be up.
const RETRY_WHEN_UNAVAILABLE_S: u32 = 10;

/// What `/v1/models` shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCard {
    pub id: String,
    /// Seconds since 1970 at which the model was loaded.
    pub created_unix_s: u64,
    /// Positions a sequence may have, prompt and answer together.
    pub context_length: u32,
}

/// How a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Requests that were still running at the deadline and were cut with `Unavailable`. 0: all were answered.
    pub cut: u32,
}

/// The handle. When the last clone is dropped the actors stop, the model goes, and rows still running are lost.
#[derive(Clone)]
pub struct Service(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    /// Empty until the model is open for the first time.
    loaded: Arc<OnceLock<Loaded>>,
    /// One for each request in the house, waiting or running: admission is a permit, passed by value.
    permits: Arc<Semaphore>,
    permits_total: u32,
    draining: AtomicBool,
    next_seq: AtomicU64,
    stats: watch::Receiver<Arc<Stats>>,
    /// The actors' thread has the other end and ends when this one is dropped.
    _stop: oneshot::Sender<()>,
}

/// What there is once the model is open.
pub(crate) struct Loaded {
    pub(crate) card: ModelCard,
    pub(crate) desk: Arc<Desk>,
}

/// What [`crate::begin()`] hands over.
pub(crate) struct Setup {
    pub(crate) options: Options,
    pub(crate) stats: watch::Receiver<Arc<Stats>>,
    pub(crate) loaded: Arc<OnceLock<Loaded>>,
    pub(crate) stop: oneshot::Sender<()>,
}

impl Service {
    pub(crate) fn new(setup: Setup) -> Service {
        let Setup { options, stats, loaded, stop } = setup;
        let permits_total = options.batch.max(1).saturating_add(options.queue);
        Service(Arc::new(Inner {
            loaded,
            permits: Arc::new(Semaphore::new(permits_total as usize)),
            permits_total,
            draining: AtomicBool::new(false),
            next_seq: AtomicU64::new(1),
            stats,
            _stop: stop,
        }))
    }

    /// Starts a request for one answer. Call it on an actix arbiter (any HTTP worker): the Request actor lives where it is called.
    /// A request that is not taken has an answer too; its only event is `Failed`.
    ///
    /// # Panics
    /// Outside of an actix arbiter.
    pub fn ask(&self, ask: Ask) -> Answer {
        let mut answers = self.ask_all(ask, 1);
        answers.pop().unwrap_or_else(|| Answer::refused(Failure::Fault { message: "the request was not taken".into() }))
    }

    /// Starts a request for `n` answers: all of them, or none, and then there is one that says why. They share the prompt's blocks, and
    /// their seeds follow one another.
    ///
    /// # Panics
    /// As [`Self::ask`].
    pub fn ask_all(&self, ask: Ask, n: u32) -> Vec<Answer> {
        let mut permits = match self.admit(&ask, n) {
            Ok(permits) => permits,
            Err(failure) => return vec![Answer::refused(failure)],
        };
        let Ok(Loaded { card, desk }) = self.loaded() else { return Vec::new() };
        let answer = |i: u32| {
            let one = (permits.0.split(1)?, permits.1.as_mut().map_or(Some(None), |all| all.split(1).map(Some))?);
            let mut ask = ask.clone();
            ask.params.seed = ask.params.seed.map(|seed| seed.wrapping_add(u64::from(i)));
            if i > 0 {
                ask.id = format!("{}-{i}", ask.id);
            }
            // An answer of `context` tokens has at most as many pieces of news: the actor can always send, however slowly its client reads.
            let (to, events) = mpsc::channel(card.context_length as usize + EVENTS_BESIDE_TEXT);
            let seq = SeqId(self.0.next_seq.fetch_add(1, Ordering::Relaxed));
            let request = Request::new(Arc::clone(desk), seq, ask, (i == 0).then_some(n), to, one);
            let paused = request.paused();
            Some(Answer::new(events, request.start(), paused))
        };
        (0..n).map_while(answer).collect()
    }

    /// Permits for `n` answers.
    fn admit(&self, ask: &Ask, n: u32) -> Result<Permits, Failure> {
        let inner = &*self.0;
        let Loaded { desk, .. } = self.loaded()?;
        if let Err(failure) = self.open() {
            let draining = inner.draining.load(Ordering::SeqCst);
            let reason = if draining { Refusal::Draining } else { Refusal::NoModel };
            desk.metrics.refused(reason);
            return Err(failure);
        }
        if n == 0 || n > inner.permits_total {
            desk.metrics.refused(Refusal::Invalid);
            let message = format!("n must be from 1 to {}: so many requests may run or wait", inner.permits_total);
            return Err(Failure::Invalid { param: "n", code: "invalid_value", message });
        }
        let retry_after_s = inner.stats.borrow().retry_after_s.max(1);
        let Ok(permits) = Arc::clone(&inner.permits).try_acquire_many_owned(n) else {
            desk.metrics.refused(Refusal::QueueFull);
            let message = format!("{} requests are running or waiting; no more are taken now", inner.permits_total);
            return Err(Failure::Busy { message, retry_after_s });
        };
        match ask.key.rows.clone().map(|rows| rows.try_acquire_many_owned(n)).transpose() {
            Ok(of_key) => Ok((permits, of_key)),
            Err(_full) => {
                desk.metrics.refused(Refusal::RateLimit);
                Err(Failure::Busy { message: "this key has as many requests running or waiting as it may have".into(), retry_after_s })
            }
        }
    }

    /// What is served.
    ///
    /// # Errors
    /// Until the model has been opened for the first time: why it has not been.
    pub fn card(&self) -> Result<&ModelCard, Failure> {
        self.loaded().map(|loaded| &loaded.card)
    }

    pub(crate) fn loaded(&self) -> Result<&Loaded, Failure> {
        self.0.loaded.get().ok_or_else(|| match &self.0.stats.borrow().worker.down {
            Some(reason) => unavailable(format!("the model is not available: {reason}")),
            None => unavailable("the model is being loaded".into()),
        })
    }

    /// Whether a request sent now would be worked on at once: the model is there, its steps keep their deadline, and the service
    /// is not shutting down.
    pub fn ready(&self) -> Result<(), Failure> {
        self.loaded()?;
        self.open()?;
        if self.0.stats.borrow().opening {
            return Err(unavailable("the model was lost and is being loaded again".into()));
        }
        Ok(())
    }

    /// Whether new requests are taken at all. While the model is being opened again they are: they wait.
    fn open(&self) -> Result<(), Failure> {
        if self.0.draining.load(Ordering::SeqCst) {
            return Err(unavailable("the service is shutting down".into()));
        }
        if let Some(reason) = &self.0.stats.borrow().lost {
            return Err(unavailable(reason.clone()));
        }
        if !self.loaded()?.desk.scheduling.connected() {
            return Err(unavailable("the scheduler stopped after an internal fault".into()));
        }
        Ok(())
    }

    /// Waits until the model has been lost so often, or in such a way, that requests are refused. Gives the reason.
    pub async fn down(&self) -> String {
        let mut stats = self.watch();
        let down = stats.wait_for(|stats| stats.worker.state == WorkerState::Down).await;
        down.map_or_else(|_| "the service stopped".into(), |stats| stats.worker.down.clone().unwrap_or_default())
    }

    /// Ids of a text, with the special tokens that the model wants around a plain prompt. A long text takes milliseconds.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Failure> {
        self.tokens(Prompt::Text(text.to_owned()))
    }

    /// Ids of a prompt as a request with it would have them: what counting endpoints need.
    pub fn tokens(&self, prompt: Prompt) -> Result<Vec<u32>, Failure> {
        let Loaded { card, desk } = self.loaded()?;
        prompt::read(&desk.text, Reasoning::None, prompt, card.context_length).map(|read| read.ids)
    }

    /// Text of ids, without special tokens.
    pub fn decode(&self, ids: &[u32]) -> Result<String, Failure> {
        let desk = &self.loaded()?.desk;
        let vocab = desk.bounds.vocab;
        if let Some(id) = ids.iter().find(|&&id| id >= vocab) {
            return Err(Failure::Invalid {
                param: "tokens",
                code: "invalid_token",
                message: format!("token id {id} is not in the model's vocabulary; allowed are 0 to {}", vocab - 1),
            });
        }
        Ok(desk.text.decode(ids))
    }

    /// Every request that waits or runs now, in the order of their coming.
    pub fn rows(&self) -> Vec<RowStats> {
        self.0.loaded.get().map_or_else(Vec::new, |loaded| loaded.desk.board.rows())
    }

    /// The service as of the scheduler's last turn.
    pub fn stats(&self) -> Stats {
        Stats::clone(&self.0.stats.borrow())
    }

    /// The same, to be awaited: it changes with every turn of the scheduler. A reader that is slow sees the newest only.
    pub fn watch(&self) -> watch::Receiver<Arc<Stats>> {
        self.0.stats.clone()
    }

    /// Requests in the house: being tokenized, waiting, running, or not yet told of their end.
    pub fn requests(&self) -> u32 {
        self.0.permits_total - self.0.permits.available_permits() as u32
    }

    /// Every series carries the model's name: there are none before it is known.
    pub fn metrics(&self) -> Result<&Metrics, Failure> {
        self.loaded().map(|loaded| &*loaded.desk.metrics)
    }

    /// Forgets prefixes that no running row holds.
    ///
    /// # Errors
    /// If there is no model yet.
    pub fn flush(&self) -> Result<(), Failure> {
        self.loaded()?.desk.scheduling.do_send(Flush);
        Ok(())
    }

    /// Takes no new request from now on.
    pub fn close(&self) {
        self.0.draining.store(true, Ordering::SeqCst);
        if let Some(Loaded { desk, .. }) = self.0.loaded.get() {
            desk.scheduling.do_send(Drain);
        }
    }

    /// Takes no new request from now on, and waits until all those in the house have ended, `timeout` at most; then cuts the rest.
    pub async fn drain(&self, timeout: Duration) -> Drained {
        let inner = &*self.0;
        self.close();
        let Some(Loaded { desk, .. }) = inner.loaded.get() else { return Drained { cut: 0 } };
        let all_back = inner.permits.acquire_many(inner.permits_total);
        if tokio::time::timeout(timeout, all_back).await.is_ok() {
            return Drained { cut: 0 };
        }
        let (to, cut) = oneshot::channel();
        desk.scheduling.do_send(Cut(to));
        // No answer: the scheduler is gone, and its routes have told every row of it.
        let cut = cut.await.unwrap_or(0);
        tracing::warn!(cut, "requests were cut at the end of the drain");
        Drained { cut }
    }
}

pub(crate) fn unavailable(message: String) -> Failure {
    Failure::Unavailable { message, retry_after_s: RETRY_WHEN_UNAVAILABLE_S }
}
