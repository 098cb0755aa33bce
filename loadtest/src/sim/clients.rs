//! What each client was promised, and what it saw: tokens in order and no others (S3), one end (S2), no preemption of the oldest
//! row (S5).

use super::ask::Ask;
use super::oracle::{self, End, Run};
use kv::invariants::Invariant::{S2, S3, S5};
use kv::invariants::ensure;
use kv::{Mask, SeqId, Violation};
use scheduler::{Counts, Event, KeyId, Reason};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) run: Run,
    pub(crate) fault_at: Option<u32>,
    pub(crate) key: KeyId,
    pub(crate) prompt: std::sync::Arc<[u32]>,
    pub(crate) read_us: u64,
    /// Time that the mask of a next draw takes, where there are masks.
    guide_us: Option<u64>,
    leaves_after: Option<u32>,
    /// Tokens in its mailbox or read, and those read.
    delivered: u32,
    read: u32,
    /// It will look into its mailbox.
    pub(crate) reads: bool,
    /// Its row is paused until it has read what there is.
    pub(crate) paused: bool,
    /// Place in the order of first admission.
    age: Option<u64>,
    pub(crate) finished: bool,
    pub(crate) cancelled: bool,
}

/// What is to be done after a client has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Nothing,
    /// There is more in the mailbox.
    More,
    Leaves,
}

impl Client {
    pub(crate) fn new(ask: &Ask, vocab: u32) -> Client {
        Client {
            run: oracle::run(&ask.submit, ask.fault_at, vocab),
            fault_at: ask.fault_at,
            key: ask.submit.key,
            prompt: ask.submit.prompt.clone(),
            read_us: ask.read_us,
            guide_us: ask.submit.mask.as_ref().map(|_| ask.guide_us),
            leaves_after: ask.leaves_after,
            delivered: 0,
            read: 0,
            reads: false,
            paused: false,
            age: None,
            finished: false,
            cancelled: false,
        }
    }

    /// No event may name it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.finished || self.cancelled
    }

    /// After the token of this index: the mask of the next draw, and how long it takes.
    pub(crate) fn guide(&self, index: u32, vocab: u32) -> Option<(u64, Mask)> {
        let at = self.prompt.len() + index as usize;
        Some((self.guide_us?, oracle::mask(*self.run.hashes.get(at)?, vocab)))
    }

    /// Not admitted yet.
    pub(crate) fn waits(&self) -> bool {
        !self.is_over() && self.age.is_none()
    }

    pub(crate) fn unread(&self) -> u32 {
        self.delivered - self.read
    }

    /// Takes one token out of the mailbox.
    pub(crate) fn read(&mut self) -> After {
        self.read += 1;
        match self.leaves_after {
            Some(after) if self.read >= after && !self.cancelled => After::Leaves,
            _ if self.unread() > 0 => After::More,
            _ => After::Nothing,
        }
    }
}

/// All clients, and which of their rows hold blocks.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) all: BTreeMap<SeqId, Client>,
    /// By order of first admission.
    running: BTreeSet<(u64, SeqId)>,
    ages: u64,
}

impl Clients {
    /// Rows that run again only once their clients have read.
    pub(crate) fn any_paused(&self) -> bool {
        self.all.values().any(|client| client.paused && !client.is_over())
    }

    pub(crate) fn running(&self) -> u32 {
        self.running.len() as u32
    }

    /// False if it was over already.
    pub(crate) fn cancel(&mut self, seq: SeqId) -> bool {
        let Some(client) = self.all.get_mut(&seq).filter(|client| !client.cancelled) else {
            return false;
        };
        client.cancelled = true;
        self.running.retain(|row| row.1 != seq);
        !client.finished
    }

    /// The model is gone: no row holds a block.
    pub(crate) fn lose(&mut self) {
        self.running.clear();
    }

    pub(crate) fn hear(&mut self, event: &Event) -> Result<(), Violation> {
        let seq = event.seq();
        let Some(client) = self.all.get_mut(&seq) else {
            return Err(Violation::new(S2, format!("{seq:?} was never taken")));
        };
        ensure(S2, !client.is_over(), || format!("{event:?} after its end"))?;
        match event {
            Event::Admitted { .. } | Event::Resumed { .. } => {
                let first = matches!(event, Event::Admitted { .. });
                ensure(S2, first == client.age.is_none(), || format!("{event:?} twice"))?;
                self.ages += 1;
                let age = *client.age.get_or_insert(self.ages);
                ensure(S2, self.running.insert((age, seq)), || format!("{event:?} while it runs"))?;
            }
            Event::Preempted { .. } => {
                let oldest = self.running.first().is_some_and(|row| row.1 == seq);
                ensure(S5, !oldest || client.paused, || format!("{seq:?} is preempted"))?;
                self.running.retain(|row| row.1 != seq);
            }
            Event::Token { token, index, .. } => {
                let expected = client.run.delivered.get(*index as usize);
                ensure(S3, *index == client.delivered, || format!("{event:?} after {} tokens", client.delivered))?;
                ensure(S3, expected == Some(token), || format!("{event:?}, not {expected:?}"))?;
                client.delivered += 1;
            }
            Event::Finished { reason, stop_token, counts, .. } => {
                client.finished = true;
                self.running.retain(|row| row.1 != seq);
                client.check_end(seq, reason, *stop_token, counts)?;
            }
        }
        Ok(())
    }

    /// When all is over: every row that was taken has ended, once, and everything delivered was read.
    pub(crate) fn check_ends(&self) -> Result<(), Violation> {
        for (seq, client) in &self.all {
            ensure(S2, client.is_over(), || format!("{seq:?} never ended"))?;
            let whole = client.cancelled || client.read as usize == client.run.delivered.len();
            ensure(S3, whole, || format!("{seq:?}: {} tokens read of {}", client.read, client.run.delivered.len()))?;
        }
        Ok(())
    }
}

impl Client {
    fn check_end(&self, seq: SeqId, reason: &Reason, stop_token: bool, counts: &Counts) -> Result<(), Violation> {
        let end = match reason {
            Reason::Stop => End::Stop,
            Reason::Length => End::Length,
            Reason::Fault(_) => End::Fault,
        };
        let run = &self.run;
        let same = end == run.end && counts.generated == run.drawn && self.delivered as usize == run.delivered.len();
        let (delivered, drawn) = (run.delivered.len(), run.drawn);
        ensure(S3, same, || {
            format!("{seq:?} ends with {end:?} after {} tokens, {counts:?}; uninterrupted {:?} after {delivered}, {drawn} drawn", self.delivered, run.end)
        })?;
        ensure(S3, stop_token == (end == End::Stop), || format!("{seq:?}: stop token"))
    }
}
