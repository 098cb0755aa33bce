//! The frames of a stream.

use super::parts::{TimingsOut, UsageOut, logprobs, reason};
use super::{Head, Shape, whole};
use crate::ids;
use crate::refusal::Refusal;
use crate::voice::{Collected, End, Voice};
use crate::wire::{json, write_json};
use actors::{Piece, TokenLogprob};
use serde_json::json as value;

/// Writes chunks. What they share is put together once, so that a token costs one buffer and no JSON tree.
#[derive(Debug)]
pub(crate) struct Chunks {
    head: Head,
    /// A chunk up to the inside of `choices`.
    open: String,
    include_usage: bool,
    /// Log-probabilities were asked for: a choice without a token yet has none, and not null.
    logprobs: bool,
    /// Of each choice, how many characters of its text have gone by: where the next token's text begins.
    offsets: Vec<usize>,
}

impl Chunks {
    pub(crate) fn new(head: Head, choices: u32, include_usage: bool, logprobs: bool) -> Chunks {
        let object = match head.shape {
            Shape::Chat => "chat.completion.chunk",
            Shape::Text => "text_completion",
        };
        let (id, model) = (json(&head.id), json(&head.model));
        let open = format!(r#"data: {{"id":{id},"object":"{object}","created":{},"model":{model},"choices":["#, head.created_unix_s);
        Chunks { head, open, include_usage, logprobs, offsets: vec![0; choices as usize] }
    }

    /// A chunk of one choice; `inner` is its delta or its text.
    fn chunk(&self, out: &mut Vec<u8>, choice: u32, inner: impl FnOnce(&mut Vec<u8>), said: Option<&serde_json::Value>) {
        out.extend_from_slice(self.open.as_bytes());
        out.extend_from_slice(br#"{"index":"#);
        write_json(out, &choice);
        out.push(b',');
        inner(out);
        out.extend_from_slice(br#","logprobs":"#);
        write_json(out, &said);
        out.extend_from_slice(br#","finish_reason":null}]"#);
        self.seal(out);
    }

    fn piece(&self, out: &mut Vec<u8>, choice: u32, piece: &Piece, said: Option<&serde_json::Value>) {
        let shape = self.head.shape;
        let delta = |out: &mut Vec<u8>| match (shape, piece) {
            (Shape::Text, piece) => {
                out.extend_from_slice(br#""text":"#);
                write_json(out, &text_of(piece));
            }
            (Shape::Chat, Piece::Text(text) | Piece::Broken { raw: text, .. }) => {
                out.extend_from_slice(br#""delta":{"content":"#);
                write_json(out, text);
                out.push(b'}');
            }
            (Shape::Chat, Piece::Reasoning(text)) => {
                out.extend_from_slice(br#""delta":{"reasoning_content":"#);
                write_json(out, text);
                out.push(b'}');
            }
            (Shape::Chat, Piece::Call { index, name }) => {
                out.extend_from_slice(br#""delta":"#);
                let function = value!({"name": name, "arguments": ""});
                write_json(out, &value!({"tool_calls": [{"index": index, "id": call_id(), "type": "function", "function": function}]}));
            }
            (Shape::Chat, Piece::Arguments { index, text }) => {
                out.extend_from_slice(br#""delta":"#);
                write_json(out, &value!({"tool_calls": [{"index": index, "function": {"arguments": text}}]}));
            }
        };
        self.chunk(out, choice, delta, said);
    }

    /// OpenAI writes a null `usage` into every other chunk of a stream that will end with one.
    fn seal(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.include_usage { b",\"usage\":null}\n\n".as_slice() } else { b"}\n\n" });
    }
}

/// No two calls of one conversation may share an id.
pub(super) fn call_id() -> String {
    format!("call_{}", ids::fresh())
}

/// What a completion shows of a piece: its text is not parsed, so there is nothing else.
fn text_of(piece: &Piece) -> &str {
    match piece {
        Piece::Text(text) | Piece::Reasoning(text) | Piece::Broken { raw: text, .. } | Piece::Arguments { text, .. } => text,
        Piece::Call { .. } => "",
    }
}

impl Voice for Chunks {
    /// The chunks that name the speaker; only chats have them.
    fn begin(&mut self, out: &mut Vec<u8>, _prompt_tokens: u32) {
        if self.head.shape == Shape::Chat {
            let role = |out: &mut Vec<u8>| out.extend_from_slice(br#""delta":{"role":"assistant","content":""}"#);
            (0..self.offsets.len() as u32).for_each(|choice| self.chunk(out, choice, role, None));
        }
    }

    fn said(&mut self, out: &mut Vec<u8>, choice: u32, pieces: Vec<Piece>, tokens: &[TokenLogprob]) {
        let mut said = self.logprobs.then(|| logprobs(self.head.shape, tokens, &mut self.offsets[choice as usize]));
        for piece in &pieces {
            out.reserve(self.open.len() + 160);
            self.piece(out, choice, piece, said.take().as_ref());
        }
    }

    /// The chunk with the reason.
    fn done(&mut self, out: &mut Vec<u8>, choice: u32, end: &End) {
        out.extend_from_slice(self.open.as_bytes());
        out.extend_from_slice(br#"{"index":"#);
        write_json(out, &choice);
        out.extend_from_slice(match self.head.shape {
            Shape::Chat => br#","delta":{}"#,
            Shape::Text => br#","text":"""#,
        });
        out.extend_from_slice(br#","logprobs":null,"finish_reason":"#);
        write_json(out, &reason(end.finish));
        out.extend_from_slice(br#"}],"coxswain":"#);
        write_json(out, &TimingsOut::from(end.timings));
        self.seal(out);
    }

    /// The chunk with the usage if it was asked for, and the end mark.
    fn close(&mut self, out: &mut Vec<u8>, ends: &[End]) {
        if self.include_usage {
            out.extend_from_slice(self.open.as_bytes());
            out.extend_from_slice(br#"],"usage":"#);
            write_json(out, &UsageOut::of(ends));
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    /// No end mark follows it.
    fn failed(&mut self, out: &mut Vec<u8>, refusal: &Refusal) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(refusal.json().as_bytes());
        out.extend_from_slice(b"\n\n");
    }

    fn whole(&mut self, choices: Vec<Collected>) -> String {
        whole::body(&self.head, choices, self.logprobs)
    }
}
