//! Output items: reasoning, a message, calls of functions; and usage.

use crate::ids;
use crate::turns::Turns;
use crate::voice::End;
use serde_json::{Value, json};

/// What an item is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Reasoning,
    Text,
    Call,
}

impl Kind {
    /// The frame that makes it grow.
    pub(super) fn delta(self) -> &'static str {
        match self {
            Kind::Reasoning => "response.reasoning_text.delta",
            Kind::Text => "response.output_text.delta",
            Kind::Call => "response.function_call_arguments.delta",
        }
    }
}

/// An item that is being told.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) kind: Kind,
    pub(super) id: String,
    /// What it says so far; a call's arguments.
    text: String,
    logprobs: Vec<Value>,
    /// A call's own id, which its result will name, and its function.
    call: (String, String),
}

impl Open {
    pub(super) fn new(kind: Kind) -> Open {
        let prefix = match kind {
            Kind::Reasoning => "rs",
            Kind::Text => "msg",
            Kind::Call => "fc",
        };
        let id = format!("{prefix}_{}", ids::fresh());
        Open { kind, id, text: String::new(), logprobs: Vec::new(), call: (String::new(), String::new()) }
    }

    pub(super) fn call(name: &str) -> Open {
        Open { call: (format!("call_{}", ids::fresh()), name.to_owned()), ..Open::new(Kind::Call) }
    }

    pub(super) fn grow(&mut self, delta: &str, logprobs: &[Value]) {
        self.text.push_str(delta);
        self.logprobs.extend_from_slice(logprobs);
    }

    /// The content part that is told; a call has none. `empty`: as it begins.
    pub(super) fn part(&self, empty: bool) -> Option<Value> {
        let (text, logprobs) = if empty { ("", &[][..]) } else { (self.text.as_str(), self.logprobs.as_slice()) };
        match self.kind {
            Kind::Reasoning => Some(json!({"type": "reasoning_text", "text": text})),
            Kind::Text => Some(json!({"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs})),
            Kind::Call => None,
        }
    }

    /// The whole item; `empty`: as it begins.
    pub(super) fn item(&self, status: &str, empty: bool) -> Value {
        let content: Vec<Value> = if empty { Vec::new() } else { self.part(false).into_iter().collect() };
        match self.kind {
            Kind::Reasoning => json!({"id": self.id, "type": "reasoning", "status": status, "summary": [], "content": content, "encrypted_content": null}),
            Kind::Text => json!({"id": self.id, "type": "message", "status": status, "role": "assistant", "content": content}),
            Kind::Call => {
                let arguments = if empty { "" } else { &self.text };
                json!({
                    "id": self.id, "type": "function_call", "status": status, "call_id": self.call.0, "name": self.call.1, "arguments": arguments,
                })
            }
        }
    }

    /// The frame that says all of it once more.
    pub(super) fn done(&self) -> (&'static str, Value) {
        match self.kind {
            Kind::Reasoning => ("response.reasoning_text.done", json!({"content_index": 0, "text": self.text})),
            Kind::Text => ("response.output_text.done", json!({"content_index": 0, "text": self.text, "logprobs": self.logprobs})),
            Kind::Call => ("response.function_call_arguments.done", json!({"name": self.call.1, "arguments": self.text})),
        }
    }
}

/// What a later turn knows of an item: text and whole calls.
pub(super) fn remember(turns: &mut Turns, item: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match item["type"].as_str() {
        Some("message") => turns.say("assistant", &text(&item["content"][0]["text"])),
        Some("function_call") if item["status"] == "completed" => {
            if let Ok(arguments) = serde_json::from_str(&text(&item["arguments"])) {
                turns.call(text(&item["call_id"]), text(&item["name"]), arguments);
            }
        }
        _ => {}
    }
}

pub(super) fn usage(end: &End) -> Value {
    let usage = end.usage;
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": end.reasoning_tokens},
        "total_tokens": usage.prompt_tokens.saturating_add(usage.completion_tokens),
    })
}
