//! The frames of a stream, and the body of an answer that is not streamed.

use super::parts::{Head, UsageOut, call_id, error, reason};
use crate::openai::TimingsOut;
use crate::refusal::Refusal;
use crate::voice::{Collected, End, Voice};
use crate::wire::{event, json};
use actors::{Piece, TokenLogprob, Usage};
use serde::Serialize;
use serde_json::{Map, Value, json as value};

/// What a content block is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    Call,
}

/// Writes events: blocks one after another, numbered, each begun, grown and ended.
#[derive(Debug)]
pub(super) struct Events {
    head: Head,
    open: Option<Block>,
    /// Of the block that is open, else of the next one.
    index: u32,
}

/// The next part of a block. A token costs one of these and no JSON tree.
#[derive(Serialize)]
struct Grown<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    index: u32,
    delta: Delta<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Delta<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: &'a str },
}

impl Events {
    pub(super) fn new(head: Head) -> Events {
        Events { head, open: None, index: 0 }
    }

    /// Ends the block that is open, and begins this one.
    fn begin_block(&mut self, out: &mut Vec<u8>, block: Block, content: &Value) {
        self.end_block(out);
        self.open = Some(block);
        event(out, "content_block_start", &value!({"type": "content_block_start", "index": self.index, "content_block": content}));
    }

    fn end_block(&mut self, out: &mut Vec<u8>) {
        let Some(block) = self.open.take() else { return };
        if block == Block::Thinking {
            // Clients want one before the end. Nothing is signed: what they send back is taken as it is.
            self.grow(out, Delta::Signature { signature: "" });
        }
        event(out, "content_block_stop", &value!({"type": "content_block_stop", "index": self.index}));
        self.index += 1;
    }

    fn grow(&self, out: &mut Vec<u8>, delta: Delta<'_>) {
        event(out, "content_block_delta", &Grown { kind: "content_block_delta", index: self.index, delta });
    }

    fn piece(&mut self, out: &mut Vec<u8>, piece: Piece) {
        match piece {
            Piece::Reasoning(thinking) => {
                if self.open != Some(Block::Thinking) {
                    self.begin_block(out, Block::Thinking, &value!({"type": "thinking", "thinking": "", "signature": ""}));
                }
                self.grow(out, Delta::Thinking { thinking: &thinking });
            }
            // The block of a call that broke has been begun: it ends unfinished.
            Piece::Text(text) | Piece::Broken { raw: text, .. } => {
                if self.open != Some(Block::Text) {
                    self.begin_block(out, Block::Text, &value!({"type": "text", "text": ""}));
                }
                self.grow(out, Delta::Text { text: &text });
            }
            Piece::Call { name, .. } => self.begin_block(out, Block::Call, &called(&name, Map::new())),
            Piece::Arguments { text, .. } => self.grow(out, Delta::Input { partial_json: &text }),
        }
    }

    fn message(&self, content: Vec<Value>, (reason, stop): (Option<&str>, Option<&str>), usage: &UsageOut) -> Value {
        value!({
            "id": self.head.id, "type": "message", "role": "assistant", "model": self.head.model, "content": content,
            "stop_reason": reason, "stop_sequence": stop, "usage": usage,
        })
    }
}

fn called(name: &str, input: Map<String, Value>) -> Value {
    value!({"type": "tool_use", "id": call_id(), "name": name, "input": input})
}

impl Voice for Events {
    /// What was there of the prompt already is known at the end only.
    fn begin(&mut self, out: &mut Vec<u8>, prompt_tokens: u32) {
        let usage = UsageOut::new(Usage { prompt_tokens, ..Usage::default() }, 0);
        let message = self.message(Vec::new(), (None, None), &usage);
        event(out, "message_start", &value!({"type": "message_start", "message": message}));
    }

    fn said(&mut self, out: &mut Vec<u8>, _choice: u32, pieces: Vec<Piece>, _logprobs: &[TokenLogprob]) {
        pieces.into_iter().for_each(|piece| self.piece(out, piece));
    }

    fn done(&mut self, out: &mut Vec<u8>, _choice: u32, end: &End) {
        self.end_block(out);
        let (reason, stop) = reason(end, &self.head.stops);
        let (usage, coxswain) = (UsageOut::new(end.usage, end.reasoning_tokens), TimingsOut::from(end.timings));
        let delta = value!({"stop_reason": reason, "stop_sequence": stop});
        event(out, "message_delta", &value!({"type": "message_delta", "delta": delta, "usage": usage, "coxswain": coxswain}));
    }

    fn close(&mut self, out: &mut Vec<u8>, _ends: &[End]) {
        event(out, "message_stop", &value!({"type": "message_stop"}));
    }

    fn failed(&mut self, out: &mut Vec<u8>, refusal: &Refusal) {
        event(out, "error", &error(refusal, None));
    }

    fn ping(&mut self, out: &mut Vec<u8>) {
        event(out, "ping", &value!({"type": "ping"}));
    }

    fn whole(&mut self, choices: Vec<Collected>) -> String {
        let Some(Collected { said, end, .. }) = choices.into_iter().next() else { return String::new() };
        let mut content = Vec::new();
        if !said.reasoning.is_empty() {
            content.push(value!({"type": "thinking", "thinking": said.reasoning, "signature": ""}));
        }
        if !said.text.is_empty() {
            content.push(value!({"type": "text", "text": said.text}));
        }
        // An object, unless max_tokens cut it.
        let input = |arguments: &str| serde_json::from_str(arguments).unwrap_or_default();
        content.extend(said.calls.iter().map(|call| called(&call.name, input(&call.arguments))));
        let (reason, stop) = reason(&end, &self.head.stops);
        let mut message = self.message(content, (Some(reason), stop), &UsageOut::new(end.usage, end.reasoning_tokens));
        message["coxswain"] = serde_json::to_value(TimingsOut::from(end.timings)).unwrap_or_default();
        json(&message)
    }
}
