//! What is asked and what a chunk of the answer says, in OpenAI's chat shapes. Unknown fields are ignored.

use serde::{Deserialize, Deserializer, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: String,
    pub content: String,
}

impl Message {
    pub fn user(content: impl Into<String>) -> Message {
        Message { role: "user".into(), content: content.into() }
    }

    pub fn assistant(content: impl Into<String>) -> Message {
        Message { role: "assistant".into(), content: content.into() }
    }
}

/// What is the same in every request.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub model: String,
    pub temperature: f32,
    pub ignore_eos: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: &'a [Message],
    max_tokens: u32,
    temperature: f32,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ignore_eos: bool,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// The request's body. `seed` is sent only when something is drawn: greedy answers do not need it, and mlx-lm's server leaves
/// requests with a seed out of its batch.
pub fn body(settings: &Settings, messages: &[Message], max_tokens: u32, seed: u64) -> Vec<u8> {
    let body = Body {
        model: &settings.model,
        messages,
        max_tokens,
        temperature: settings.temperature,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        seed: (settings.temperature > 0.0).then_some(seed),
        ignore_eos: settings.ignore_eos,
    };
    serde_json::to_vec(&body).expect("strings and finite numbers are JSON")
}

/// Tokens as the server counts them; None where it does not, or says what no count can be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Usage {
    #[serde(default, deserialize_with = "count")]
    pub prompt_tokens: Option<u32>,
    #[serde(default, deserialize_with = "count")]
    pub completion_tokens: Option<u32>,
    #[serde(default)]
    pub prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct PromptDetails {
    #[serde(default, deserialize_with = "count")]
    pub cached_tokens: Option<u32>,
}

/// An answer whose text is good is no failure for a count that is not.
fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    Ok(value.as_u64().and_then(|n| u32::try_from(n).ok()))
}

impl Usage {
    /// Without the counts that cannot be, of an answer of at most so many tokens.
    pub fn believed(mut self, max_tokens: u32) -> Usage {
        self.completion_tokens = self.completion_tokens.filter(|&n| n <= max_tokens);
        let prompt = self.prompt_tokens.unwrap_or(0);
        if let Some(details) = &mut self.prompt_tokens_details {
            details.cached_tokens = details.cached_tokens.filter(|&n| n <= prompt);
        }
        self
    }
}

/// One event of the stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chunk {
    /// Text of any kind: content, reasoning, arguments of a tool call.
    pub text: String,
    pub finish_reason: Option<String>,
    pub usage: Option<Usage>,
    /// The server gave up after the first byte.
    pub error: Option<String>,
}

#[derive(Deserialize)]
struct Wire {
    /// Empty in the chunk that has the usage, or null.
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Default, Deserialize)]
struct Function {
    #[serde(default)]
    arguments: Option<String>,
}

impl Chunk {
    /// Reads an event's data, which is not `[DONE]`.
    pub fn parse(data: &str) -> Result<Chunk, serde_json::Error> {
        let wire: Wire = serde_json::from_str(data)?;
        let mut chunk = Chunk { usage: wire.usage, error: wire.error.map(|e| message(&e)), ..Chunk::default() };
        for choice in wire.choices.into_iter().flatten() {
            let delta = choice.delta.unwrap_or_default();
            let calls = delta.tool_calls.into_iter().flatten().filter_map(|call| call.function?.arguments);
            let texts = [delta.reasoning, delta.reasoning_content, delta.content].into_iter().flatten();
            texts.chain(calls).for_each(|text| chunk.text.push_str(&text));
            chunk.finish_reason = chunk.finish_reason.or(choice.finish_reason);
        }
        Ok(chunk)
    }
}

/// An error object's message, or all of it if it has none.
fn message(error: &serde_json::Value) -> String {
    let message = error.get("message").and_then(|m| m.as_str()).or(error.as_str());
    message.map_or_else(|| error.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_say_text_end_usage_or_error() {
        let usage = |prompt_tokens, completion_tokens, cached: Option<u32>| Usage {
            prompt_tokens: Some(prompt_tokens),
            completion_tokens: Some(completion_tokens),
            prompt_tokens_details: cached.map(|c| PromptDetails { cached_tokens: Some(c) }),
        };
        for (data, expect) in [
            (r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#, Chunk::default()),
            (r#"{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}"#, Chunk { text: "a".into(), ..Chunk::default() }),
            (r#"{"choices":[{"delta":{"content":null,"reasoning_content":"r"}}]}"#, Chunk { text: "r".into(), ..Chunk::default() }),
            (r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#, Chunk { text: "{}".into(), ..Chunk::default() }),
            (r#"{"choices":[{"delta":null,"finish_reason":null}],"usage":null,"error":null}"#, Chunk::default()),
            (r#"{"choices":[{"delta":{"reasoning":"r","tool_calls":[{"function":null}]}}]}"#, Chunk { text: "r".into(), ..Chunk::default() }),
            (r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#, Chunk { finish_reason: Some("length".into()), ..Chunk::default() }),
            (
                r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3}}}"#,
                Chunk { usage: Some(usage(7, 5, Some(3))), ..Chunk::default() },
            ),
            (
                r#"{"choices":null,"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}"#,
                Chunk { usage: Some(usage(7, 5, None)), ..Chunk::default() },
            ),
            (
                r#"{"choices":[],"usage":{"prompt_tokens":18446744073709551615,"completion_tokens":-1,"prompt_tokens_details":{"cached_tokens":1.5}}}"#,
                Chunk { usage: Some(Usage { prompt_tokens_details: Some(PromptDetails::default()), ..Usage::default() }), ..Chunk::default() },
            ),
            (r#"{"usage":{}}"#, Chunk { usage: Some(Usage::default()), ..Chunk::default() }),
            (r#"{"error":{"message":"lost","type":"x"}}"#, Chunk { error: Some("lost".into()), ..Chunk::default() }),
            (r#"{"error":"lost"}"#, Chunk { error: Some("lost".into()), ..Chunk::default() }),
        ] {
            assert_eq!(Chunk::parse(data).unwrap(), expect, "{data}");
        }
        for data in ["", "3", "{\"choices\":3}", "nonsense"] {
            assert!(Chunk::parse(data).is_err(), "{data}");
        }
    }

    #[test]
    fn more_than_there_can_be_is_not_believed() {
        let usage = |prompt, completion, cached| Usage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            prompt_tokens_details: Some(PromptDetails { cached_tokens: cached }),
        };
        for (said, believed) in [
            (usage(Some(7), Some(8), Some(7)), usage(Some(7), Some(8), Some(7))),
            (usage(Some(7), Some(9), Some(8)), usage(Some(7), None, None)),
            (usage(None, None, Some(1)), usage(None, None, None)),
        ] {
            assert_eq!(said.believed(8), believed);
        }
    }

    #[test]
    fn a_greedy_request_has_no_seed() {
        let mut settings = Settings { model: "m".into(), temperature: 0.0, ignore_eos: false };
        let json = |settings: &Settings| String::from_utf8(body(settings, &[Message::user("hi")], 8, 3)).unwrap();
        assert_eq!(
            json(&settings),
            r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":8,"temperature":0.0,"stream":true,"stream_options":{"include_usage":true}}"#
        );
        settings.temperature = 0.5;
        settings.ignore_eos = true;
        assert!(json(&settings).ends_with(r#","seed":3,"ignore_eos":true}"#));
    }
}
