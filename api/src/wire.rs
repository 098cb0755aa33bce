//! What goes out: the bodies of whole answers and of the model list, as OpenAI shapes them, and the frames of a stream.

use crate::ask::Shape;
use actors::{Finish, ModelCard, Timings, Usage};
use serde::Serialize;
use std::io::Write;

/// What every object of one answer repeats.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) shape: Shape,
    /// `chatcmpl-…` or `cmpl-…`.
    pub(crate) id: String,
    pub(crate) created_unix_s: u64,
    pub(crate) model: String,
}

impl Head {
    /// The body of an answer that is not streamed.
    pub(crate) fn whole(&self, text: &str, finish: Finish, usage: Usage, timings: Timings) -> String {
        let choice = match self.shape {
            Shape::Chat => Choice { message: Some(Message { role: "assistant", content: text, refusal: None }), ..Choice::new(finish) },
            Shape::Text => Choice { text: Some(text), ..Choice::new(finish) },
        };
        let object = match self.shape {
            Shape::Chat => "chat.completion",
            Shape::Text => "text_completion",
        };
        let whole =
            Whole { id: &self.id, object, created: self.created_unix_s, model: &self.model, choices: [choice], usage: usage.into(), coxswain: timings.into() };
        json(&whole)
    }
}

#[derive(Serialize)]
struct Whole<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    usage: UsageOut,
    coxswain: TimingsOut,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    logprobs: Option<()>,
    finish_reason: &'static str,
}

impl Choice<'_> {
    fn new(finish: Finish) -> Self {
        Choice { index: 0, message: None, text: None, logprobs: None, finish_reason: reason(finish) }
    }
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
    refusal: Option<()>,
}

#[derive(Serialize)]
struct UsageOut {
    prompt_tokens: u32,
    completion_tokens: u32,
    total_tokens: u32,
    prompt_tokens_details: Details,
}

#[derive(Serialize)]
struct Details {
    cached_tokens: u32,
}

impl From<Usage> for UsageOut {
    fn from(u: Usage) -> Self {
        UsageOut {
            prompt_tokens: u.prompt_tokens,
            completion_tokens: u.completion_tokens,
            total_tokens: u.prompt_tokens.saturating_add(u.completion_tokens),
            prompt_tokens_details: Details { cached_tokens: u.cached_tokens },
        }
    }
}

#[derive(Serialize)]
struct TimingsOut {
    queue_ms: f64,
    prefill_ms: f64,
    decode_ms: f64,
    ttft_ms: f64,
    preemptions: u32,
    restarts: u32,
    seed: u64,
}

impl From<Timings> for TimingsOut {
    fn from(t: Timings) -> Self {
        // Microseconds are the finest that a reader can use.
        let ms = |x: f64| (x * 1000.0).round() / 1000.0;
        TimingsOut {
            queue_ms: ms(t.queue_ms),
            prefill_ms: ms(t.prefill_ms),
            decode_ms: ms(t.decode_ms),
            ttft_ms: ms(t.ttft_ms),
            preemptions: t.preemptions,
            restarts: t.restarts,
            seed: t.seed,
        }
    }
}

fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
    }
}

/// Writes the frames of one stream. What its chunks share is put together once, so that a token costs one buffer and no JSON tree.
#[derive(Debug)]
pub(crate) struct Voice {
    shape: Shape,
    /// A chunk up to the inside of `choices`.
    open: String,
    include_usage: bool,
}

impl Voice {
    pub(crate) fn new(head: &Head, include_usage: bool) -> Voice {
        let object = match head.shape {
            Shape::Chat => "chat.completion.chunk",
            Shape::Text => "text_completion",
        };
        let (id, model) = (json(&head.id), json(&head.model));
        let open = format!(r#"data: {{"id":{id},"object":"{object}","created":{},"model":{model},"choices":["#, head.created_unix_s);
        Voice { shape: head.shape, open, include_usage }
    }

    /// The chunk that names the speaker; only chats have it.
    pub(crate) fn role(&self, out: &mut Vec<u8>) {
        if self.shape == Shape::Chat {
            self.choice(out, br#""delta":{"role":"assistant","content":""}"#, None);
            self.close(out);
        }
    }

    pub(crate) fn text(&self, out: &mut Vec<u8>, text: &str) {
        out.reserve(self.open.len() + text.len() + 96);
        out.extend_from_slice(self.open.as_bytes());
        out.extend_from_slice(match self.shape {
            Shape::Chat => br#"{"index":0,"delta":{"content":"#,
            Shape::Text => br#"{"index":0,"text":"#,
        });
        write_json(out, &text);
        if self.shape == Shape::Chat {
            out.push(b'}');
        }
        out.extend_from_slice(br#","logprobs":null,"finish_reason":null}]"#);
        self.close(out);
    }

    /// The chunk with the reason, the one with the usage if it was asked for, and the end mark.
    pub(crate) fn done(&self, out: &mut Vec<u8>, finish: Finish, usage: Usage, timings: Timings) {
        let nothing: &[u8] = match self.shape {
            Shape::Chat => br#""delta":{}"#,
            Shape::Text => br#""text":"""#,
        };
        self.choice(out, nothing, Some(reason(finish)));
        out.extend_from_slice(br#","coxswain":"#);
        write_json(out, &TimingsOut::from(timings));
        self.close(out);
        if self.include_usage {
            out.extend_from_slice(self.open.as_bytes());
            out.extend_from_slice(br#"],"usage":"#);
            write_json(out, &UsageOut::from(usage));
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    /// After the first byte the status is out; the error is the last frame, and no end mark follows it.
    pub(crate) fn failed(out: &mut Vec<u8>, error: &str) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(error.as_bytes());
        out.extend_from_slice(b"\n\n");
    }

    fn choice(&self, out: &mut Vec<u8>, inner: &[u8], finish: Option<&'static str>) {
        out.extend_from_slice(self.open.as_bytes());
        out.extend_from_slice(br#"{"index":0,"#);
        out.extend_from_slice(inner);
        out.extend_from_slice(br#","logprobs":null,"finish_reason":"#);
        write_json(out, &finish);
        out.extend_from_slice(b"}]");
    }

    /// OpenAI writes a null `usage` into every other chunk of a stream that will end with one.
    fn close(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.include_usage { b",\"usage\":null}\n\n".as_slice() } else { b"}\n\n" });
    }
}

/// `/v1/models`.
#[derive(Serialize)]
pub(crate) struct ModelList<'a> {
    object: &'static str,
    data: [Model<'a>; 1],
}

#[derive(Serialize)]
pub(crate) struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    /// Tokens of prompt and answer together.
    max_model_len: u32,
}

impl<'a> Model<'a> {
    pub(crate) fn new(card: &'a ModelCard) -> Self {
        Model { id: &card.id, object: "model", created: card.created_unix_s, owned_by: "coxswain", max_model_len: card.context_length }
    }

    pub(crate) fn list(card: &'a ModelCard) -> ModelList<'a> {
        ModelList { object: "list", data: [Model::new(card)] }
    }
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain structs of strings and numbers serialize")
}

fn write_json<T: Serialize>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out.by_ref(), value).expect("plain structs serialize, and a Vec takes every byte");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn head(shape: Shape) -> Head {
        Head { shape, id: "x-1".into(), created_unix_s: 5, model: "a/\"b\"".into() }
    }

    fn end() -> (Finish, Usage, Timings) {
        let usage = Usage { prompt_tokens: 7, cached_tokens: 4, completion_tokens: 2 };
        let timings = Timings { queue_ms: 0.123456, prefill_ms: 1.0, decode_ms: 2.5, ttft_ms: 1.2, preemptions: 1, restarts: 0, seed: u64::MAX };
        (Finish::Length, usage, timings)
    }

    const COXSWAIN: &str = r#"{"queue_ms":0.123,"prefill_ms":1.0,"decode_ms":2.5,"ttft_ms":1.2,"preemptions":1,"restarts":0,"seed":18446744073709551615}"#;
    const USAGE: &str = r#"{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}"#;

    #[test]
    fn whole_answers() {
        let (finish, usage, timings) = end();
        let chat: Value = serde_json::from_str(&head(Shape::Chat).whole("é\n", finish, usage, timings)).unwrap();
        let tail = |v: &str| serde_json::from_str::<Value>(v).unwrap();
        let expect = json!({
            "id": "x-1", "object": "chat.completion", "created": 5, "model": "a/\"b\"",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "é\n", "refusal": null}, "logprobs": null, "finish_reason": "length"}],
            "usage": tail(USAGE), "coxswain": tail(COXSWAIN),
        });
        assert_eq!(chat, expect);
        let text: Value = serde_json::from_str(&head(Shape::Text).whole("a", Finish::Stop, usage, timings)).unwrap();
        assert_eq!(text["object"], "text_completion");
        assert_eq!(text["choices"], json!([{"index": 0, "text": "a", "logprobs": null, "finish_reason": "stop"}]));
    }

    #[test]
    fn frames_of_a_chat() {
        let (finish, usage, timings) = end();
        let voice = Voice::new(&head(Shape::Chat), true);
        let mut out = Vec::new();
        voice.role(&mut out);
        voice.text(&mut out, "a\"\n\u{1}é");
        voice.done(&mut out, finish, usage, timings);
        let open = r#"data: {"id":"x-1","object":"chat.completion.chunk","created":5,"model":"a/\"b\"","choices":["#;
        let expect = [
            format!(r#"{open}{{"index":0,"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}],"usage":null}}"#),
            format!(r#"{open}{{"index":0,"delta":{{"content":"a\"\n\u0001é"}},"logprobs":null,"finish_reason":null}}],"usage":null}}"#),
            format!(r#"{open}{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"length"}}],"coxswain":{COXSWAIN},"usage":null}}"#),
            format!(r#"{open}],"usage":{USAGE}}}"#),
            "data: [DONE]".to_owned(),
        ];
        assert_eq!(String::from_utf8(out).unwrap(), expect.map(|frame| frame + "\n\n").concat());
    }

    #[test]
    fn frames_of_a_text() {
        let (_, usage, timings) = end();
        let voice = Voice::new(&head(Shape::Text), false);
        let mut out = Vec::new();
        voice.role(&mut out);
        voice.text(&mut out, "a");
        voice.done(&mut out, Finish::Stop, usage, timings);
        let open = r#"data: {"id":"x-1","object":"text_completion","created":5,"model":"a/\"b\"","choices":["#;
        let expect = [
            format!(r#"{open}{{"index":0,"text":"a","logprobs":null,"finish_reason":null}}]}}"#),
            format!(r#"{open}{{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}}],"coxswain":{COXSWAIN}}}"#),
            "data: [DONE]".to_owned(),
        ];
        assert_eq!(String::from_utf8(out).unwrap(), expect.map(|frame| frame + "\n\n").concat());
    }
}
