//! The frames of a stream, and the body of an answer that is not streamed.
//!
//! Both are told by one machine: items one after another, each begun, grown and ended. A whole answer is what is left when all frames are gone.

use super::items::{self, Open};
use super::store::{Store, Stored};
use crate::openai::{TimingsOut, chat_logprobs};
use crate::refusal::Refusal;
use crate::stream::of_reasoning;
use crate::turns::Turns;
use crate::voice::{Collected, End, Voice};
use crate::wire::{event, json};
use actix_web::web::Data;
use actors::{Finish, Piece, TokenLogprob};
use serde::Serialize;
use serde_json::{Map, Value, json as value};

/// What every object of one answer repeats.
#[derive(Debug)]
pub(super) struct Head {
    /// `resp_…`.
    pub(super) id: String,
    pub(super) created_unix_s: u64,
    pub(super) model: String,
    /// The fields that repeat the request's.
    pub(super) echo: Map<String, Value>,
}

/// Where an answer that is finished goes, for later turns.
#[derive(Debug)]
pub(super) struct Keep {
    pub(super) store: Data<Store>,
    pub(super) key: u32,
    /// All that was said before it.
    pub(super) messages: Vec<Value>,
}

#[derive(Debug)]
pub(super) struct Events {
    head: Head,
    keep: Option<Keep>,
    /// Of the next frame.
    sequence: u64,
    /// Items that are complete.
    output: Vec<Value>,
    open: Option<Open>,
}

/// The next part of an item. A token costs one of these and no JSON tree.
#[derive(Serialize)]
struct Grown<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    sequence_number: u64,
    item_id: &'a str,
    output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_index: Option<u32>,
    delta: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<&'a [Value]>,
}

impl Events {
    pub(super) fn new(head: Head, keep: Option<Keep>) -> Events {
        Events { head, keep, sequence: 0, output: Vec::new(), open: None }
    }

    /// A frame: `fields` and what all have.
    fn emit(&mut self, out: &mut Vec<u8>, kind: &'static str, fields: Value) {
        let mut data = value!({"type": kind, "sequence_number": self.sequence});
        if let (Some(data), Value::Object(fields)) = (data.as_object_mut(), fields) {
            data.extend(fields);
        }
        self.sequence += 1;
        event(out, kind, &data);
    }

    fn begin_item(&mut self, out: &mut Vec<u8>, open: Open) {
        self.end_item(out, false);
        let (index, item) = (self.output.len(), open.item("in_progress", true));
        self.emit(out, "response.output_item.added", value!({"output_index": index, "item": item}));
        if let Some(part) = open.part(true) {
            self.emit(out, "response.content_part.added", value!({"item_id": open.id, "output_index": index, "content_index": 0, "part": part}));
        }
        self.open = Some(open);
    }

    /// Ends the item that is open. One that is `cut` would have gone on; calls are whole or they broke.
    fn end_item(&mut self, out: &mut Vec<u8>, cut: bool) {
        let Some(open) = self.open.take() else { return };
        let index = self.output.len();
        let (name, mut done) = open.done();
        done["item_id"] = open.id.as_str().into();
        done["output_index"] = index.into();
        self.emit(out, name, done);
        if let Some(part) = open.part(false) {
            self.emit(out, "response.content_part.done", value!({"item_id": open.id, "output_index": index, "content_index": 0, "part": part}));
        }
        let item = open.item(if cut { "incomplete" } else { "completed" }, false);
        self.emit(out, "response.output_item.done", value!({"output_index": index, "item": item}));
        self.output.push(item);
    }

    fn grow(&mut self, out: &mut Vec<u8>, delta: &str, logprobs: &[Value]) {
        let Some(open) = &mut self.open else { return };
        open.grow(delta, logprobs);
        let of_content = open.kind != items::Kind::Call;
        let grown = Grown {
            kind: open.kind.delta(),
            sequence_number: self.sequence,
            item_id: &open.id,
            output_index: self.output.len(),
            content_index: of_content.then_some(0),
            delta,
            logprobs: (open.kind == items::Kind::Text).then_some(logprobs),
        };
        event(out, grown.kind, &grown);
        self.sequence += 1;
    }

    fn piece(&mut self, out: &mut Vec<u8>, piece: &Piece, logprobs: &mut Vec<Value>) {
        let kind = match piece {
            Piece::Reasoning(_) => items::Kind::Reasoning,
            Piece::Text(_) | Piece::Broken { .. } => items::Kind::Text,
            Piece::Call { .. } | Piece::Arguments { .. } => items::Kind::Call,
        };
        if let Piece::Broken { .. } = piece {
            // It has been begun, and is no call: clients are told by its status.
            self.end_item(out, true);
        }
        match piece {
            Piece::Call { name, .. } => self.begin_item(out, Open::call(name)),
            Piece::Arguments { text, .. } => self.grow(out, text, &[]),
            Piece::Reasoning(text) | Piece::Text(text) | Piece::Broken { raw: text, .. } => {
                if self.open.as_ref().is_none_or(|open| open.kind != kind) {
                    self.begin_item(out, Open::new(kind));
                }
                let told = if kind == items::Kind::Text { std::mem::take(logprobs) } else { Vec::new() };
                self.grow(out, text, &told);
            }
        }
    }

    /// The response object as it stands.
    fn response(&self, status: &str, end: Option<&End>, error: Value) -> Value {
        let details = if status == "incomplete" { value!({"reason": "max_output_tokens"}) } else { Value::Null };
        let mut response = value!({
            "id": self.head.id, "object": "response", "created_at": self.head.created_unix_s, "status": status, "error": error,
            "incomplete_details": details, "model": self.head.model, "output": self.output,
            "usage": end.map(items::usage),
        });
        if let (Some(response), Some(end)) = (response.as_object_mut(), end) {
            response.insert("coxswain".into(), serde_json::to_value(TimingsOut::from(end.timings)).unwrap_or_default());
        }
        if let Some(response) = response.as_object_mut() {
            response.extend(self.head.echo.clone());
        }
        response
    }

    /// The finished object, kept if it is to be.
    fn finished(&mut self, end: &End) -> (&'static str, Value) {
        let (name, status) = match end.finish {
            Finish::Length => ("response.incomplete", "incomplete"),
            Finish::Stop | Finish::Calls => ("response.completed", "completed"),
        };
        let response = self.response(status, Some(end), Value::Null);
        if let Some(Keep { store, key, messages }) = self.keep.take() {
            let mut turns = Turns::after(messages);
            self.output.iter().for_each(|item| items::remember(&mut turns, item));
            store.put(key, self.head.id.clone(), Stored { body: json(&response), messages: turns.messages() });
        }
        (name, response)
    }
}

impl Voice for Events {
    fn begin(&mut self, out: &mut Vec<u8>, _prompt_tokens: u32) {
        let response = self.response("in_progress", None, Value::Null);
        self.emit(out, "response.created", value!({"response": response}));
        self.emit(out, "response.in_progress", value!({"response": response}));
    }

    /// Log-probabilities are of what is said, and not of what is thought.
    fn said(&mut self, out: &mut Vec<u8>, _choice: u32, pieces: Vec<Piece>, logprobs: &[TokenLogprob]) {
        let mut told = if of_reasoning(&pieces) { Vec::new() } else { chat_logprobs(logprobs) };
        pieces.iter().for_each(|piece| self.piece(out, piece, &mut told));
    }

    fn done(&mut self, out: &mut Vec<u8>, _choice: u32, end: &End) {
        let cut = end.finish == Finish::Length && self.open.as_ref().is_some_and(|open| open.kind != items::Kind::Call);
        self.end_item(out, cut);
    }

    fn close(&mut self, out: &mut Vec<u8>, ends: &[End]) {
        if let Some(end) = ends.first() {
            let (name, response) = self.finished(end);
            self.emit(out, name, value!({"response": response}));
        }
    }

    fn failed(&mut self, out: &mut Vec<u8>, refusal: &Refusal) {
        self.end_item(out, true);
        let response = self.response("failed", None, value!({"code": "server_error", "message": refusal.message}));
        self.emit(out, "response.failed", value!({"response": response}));
    }

    fn whole(&mut self, choices: Vec<Collected>) -> String {
        let Some(Collected { said, logprobs, end }) = choices.into_iter().next() else { return String::new() };
        let mut gone = Vec::new();
        if !said.reasoning.is_empty() {
            self.said(&mut gone, 0, vec![Piece::Reasoning(said.reasoning)], &[]);
        }
        if !said.text.is_empty() {
            let of_text = logprobs.get(end.reasoning_tokens as usize..).unwrap_or_default();
            self.said(&mut gone, 0, vec![Piece::Text(said.text)], of_text);
        }
        for (index, call) in (0..).zip(said.calls) {
            let pieces = vec![Piece::Call { index, name: call.name }, Piece::Arguments { index, text: call.arguments }];
            self.said(&mut gone, 0, pieces, &[]);
        }
        self.done(&mut gone, 0, &end);
        json(&self.finished(&end).1)
    }
}
