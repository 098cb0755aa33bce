//! Which conversations are held, in which order, and what each client does: leaves, reads slowly, has which key. Pure: the same
//! seed gives the same workload, however the answers come.

use super::draw::{self, Purpose};
use super::keys::Keys;
use super::prompts::{self, Conversation};
use super::trace::{Asks, Entry};
use super::units::Span;
use crate::chat::Message;
use serde::Serialize;

/// Where prompts come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// In their order, and over again.
    Listed(Vec<Conversation>),
    /// Random words, so many.
    Random(Span),
    /// One conversation an entry, and no more.
    Trace(Vec<Entry>),
}

/// What is done to prompts before they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Shape {
    /// Conversations of so many turns, each turn one of the source's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<Span>,
    /// A system prompt of so many words, shared by the conversations of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_prefix: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<u32>,
    /// Tokens that an answer may have, drawn for each request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_output: Option<Span>,
}

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Habits {
    /// Share of requests whose client leaves before the end, 0 to 1.
    pub disconnect: f64,
    /// Share of requests whose client reads slowly, 0 to 1.
    pub slow_reader: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    pub source: Source,
    pub shape: Shape,
    pub habits: Habits,
    pub keys: Keys,
    /// Tokens that an answer may have, where nothing else says so.
    pub max_tokens: u32,
    pub seed: u64,
}

/// A conversation that one client holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Index of its first request among all requests.
    pub first: usize,
    pub before: Vec<Message>,
    pub turns: Vec<Turn>,
    /// Index of its key.
    pub key: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    pub text: String,
    pub max_tokens: u32,
    /// The client leaves after so many pieces of text; None if it stays.
    pub leave_after: Option<u32>,
    pub slow: bool,
}

impl Workload {
    /// The conversation with this number, whose first request has index `first`. None beyond the end of a trace.
    pub fn job(&self, number: usize, first: usize) -> Option<Job> {
        let (mut conversation, recorded) = self.conversation(number)?;
        self.add_prefix(number, &mut conversation);
        let turns = conversation.turns.into_iter().enumerate().map(|(i, text)| self.turn(first + i, text, recorded)).collect();
        let key = self.keys.pick(draw::unit(self.seed, Purpose::Key, number as u64));
        Some(Job { first, before: conversation.before, turns, key })
    }

    /// The conversation as it comes from the source, and the answer's length if that says so.
    fn conversation(&self, number: usize) -> Option<(Conversation, Option<u32>)> {
        let text = |span: Span, index: u64| prompts::words(self.seed, index, draw::between(self.seed, Purpose::Words, index, span.min, span.max));
        let turns = self.shape.turns.map(|span| (draw::between(self.seed, Purpose::Turns, number as u64, span.min, span.max) as usize, span.max as usize));
        match (&self.source, turns) {
            (Source::Listed(list), None) => Some((list[number % list.len()].clone(), None)),
            (Source::Listed(list), Some((count, most))) => {
                // Each conversation has places of its own in the list, so that two have a turn in common only when it starts over.
                let at = |i: usize| &list[(number * most + i) % list.len()];
                let turns = (0..count).map(|i| at(i).turns[0].clone()).collect();
                Some((Conversation { before: at(0).before.clone(), turns }, None))
            }
            (Source::Random(span), None) => Some((Conversation::of(text(*span, number as u64)), None)),
            (Source::Random(span), Some((count, most))) => {
                let turns = (0..count).map(|i| text(*span, (number * most + i) as u64)).collect();
                Some((Conversation { before: Vec::new(), turns }, None))
            }
            (Source::Trace(entries), _) => {
                let entry = entries.get(number)?;
                let conversation = match &entry.asks {
                    Asks::Conversation(conversation) => conversation.clone(),
                    Asks::Words(count) => Conversation::of(prompts::words(self.seed, number as u64, *count)),
                };
                Some((conversation, entry.output_tokens))
            }
        }
    }

    /// The group's words go before all else. A system message that is there already goes on after them: many templates allow one.
    fn add_prefix(&self, number: usize, conversation: &mut Conversation) {
        let Some(count) = self.shape.shared_prefix else { return };
        let group = draw::between(self.seed, Purpose::Group, number as u64, 0, self.shape.groups.unwrap_or(1) - 1);
        // Beyond the numbers of conversations, so that no prompt has a group's words.
        let prefix = prompts::words(self.seed, u64::MAX - u64::from(group), count);
        match conversation.before.first_mut() {
            Some(message) if message.role == "system" => message.content = format!("{prefix}\n{}", message.content),
            _ => conversation.before.insert(0, Message { role: "system".into(), content: prefix }),
        }
    }

    fn turn(&self, index: usize, text: String, recorded: Option<u32>) -> Turn {
        let index = index as u64;
        let drawn = self.shape.random_output.map(|span| draw::between(self.seed, Purpose::Output, index, span.min, span.max));
        let max_tokens = recorded.or(drawn).unwrap_or(self.max_tokens);
        let leaves = draw::unit(self.seed, Purpose::Leave, index) < self.habits.disconnect;
        // In the first half of what may come, so that it is before the end even of answers that end early.
        let leave_after = leaves.then(|| draw::between(self.seed, Purpose::LeaveAfter, index, 1, (max_tokens / 2).max(1)));
        let slow = draw::unit(self.seed, Purpose::Slow, index) < self.habits.slow_reader;
        Turn { text, max_tokens, leave_after, slow }
    }
}

/// Conversations one after the other, until there were as many requests as there may be.
#[derive(Debug)]
pub struct Jobs<W> {
    workload: W,
    next: usize,
    first: usize,
    most: Option<usize>,
}

impl<W: AsRef<Workload>> Jobs<W> {
    /// From conversation `next` on. `most`: requests; None: without an end.
    pub fn new(workload: W, next: usize, most: Option<usize>) -> Jobs<W> {
        Jobs { workload, next, first: 0, most }
    }

    /// The number of the conversation that would be next.
    pub fn reached(&self) -> usize {
        self.next
    }
}

impl<W: AsRef<Workload>> Iterator for Jobs<W> {
    type Item = Job;

    /// The last conversation is cut to fit.
    fn next(&mut self) -> Option<Job> {
        let left = self.most.map_or(usize::MAX, |most| most - self.first);
        if left == 0 {
            return None;
        }
        let mut job = self.workload.as_ref().job(self.next, self.first)?;
        job.turns.truncate(left);
        self.next += 1;
        self.first += job.turns.len();
        Some(job)
    }
}

#[cfg(test)]
#[path = "workload_tests.rs"]
mod tests;
