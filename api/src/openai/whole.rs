//! The body of an answer that is not streamed.

use super::chunks::call_id;
use super::parts::{TimingsOut, UsageOut, logprobs, reason};
use super::{Head, Shape};
use crate::voice::{Collected, End};
use crate::wire::json;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<Choice>,
    usage: UsageOut,
    /// Of the first choice.
    coxswain: Option<TimingsOut>,
}

#[derive(Serialize)]
struct Choice {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    logprobs: Option<Value>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    /// Null where there are calls and nothing else.
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    refusal: Option<()>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
}

#[derive(Serialize)]
struct ToolCall {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function,
}

#[derive(Serialize)]
struct Function {
    name: String,
    arguments: String,
}

pub(super) fn body(head: &Head, choices: Vec<Collected>, with_logprobs: bool) -> String {
    let ends: Vec<End> = choices.iter().map(|choice| choice.end).collect();
    let choice = |(index, Collected { said, logprobs: tokens, end }): (u32, Collected)| {
        let called = |call: dialects::Call| ToolCall { id: call_id(), kind: "function", function: Function { name: call.name, arguments: call.arguments } };
        let (message, text) = match head.shape {
            Shape::Chat => {
                let tool_calls: Vec<ToolCall> = said.calls.into_iter().map(called).collect();
                let content = Some(said.text).filter(|text| !text.is_empty() || tool_calls.is_empty());
                let reasoning_content = Some(said.reasoning).filter(|text| !text.is_empty());
                (Some(Message { role: "assistant", content, reasoning_content, refusal: None, tool_calls }), None)
            }
            Shape::Text => (None, Some(said.text)),
        };
        let logprobs = with_logprobs.then(|| logprobs(head.shape, &tokens, &mut 0));
        Choice { index, message, text, logprobs, finish_reason: reason(end.finish) }
    };
    let object = match head.shape {
        Shape::Chat => "chat.completion",
        Shape::Text => "text_completion",
    };
    let choices = (0..).zip(choices).map(choice).collect();
    let coxswain = ends.first().map(|end| end.timings.into());
    json(&Body { id: &head.id, object, created: head.created_unix_s, model: &head.model, choices, usage: UsageOut::of(&ends), coxswain })
}
