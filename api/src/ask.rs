//! What a client wants: the bodies of `/v1/chat/completions` and `/v1/completions`, every field checked.

use crate::fields::{Fields, integer, wrong};
use crate::messages;
use crate::refusal::{Kind, Refusal};
use actors::{ModelCard, Params, Prompt};
use serde_json::Value;

/// Stop strings a request may have.
const STOPS_MAX: usize = 16;
/// What `/v1/completions` answers with if it is not told how many: OpenAI's number. Chat has no such number.
const COMPLETION_TOKENS: u32 = 16;

/// Which of the two endpoints, and so which shape the answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Chat,
    Text,
}

/// A request that can be handed on.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) prompt: Prompt,
    pub(crate) params: Params,
    pub(crate) stream: bool,
    /// A last chunk with `usage` and no choices.
    pub(crate) include_usage: bool,
}

/// Reads a whole body.
pub(crate) fn read(shape: Shape, body: Value, card: &ModelCard) -> Result<Wanted, Refusal> {
    let mut fields = Fields::new("", body)?;
    model(&mut fields, card)?;
    refuse_unserved(&mut fields, shape)?;
    let prompt = match shape {
        Shape::Chat => chat(&mut fields)?,
        Shape::Text => text(&mut fields)?,
    };
    let mut params = params(&mut fields)?;
    if shape == Shape::Text {
        params.usual_tokens = Some(COMPLETION_TOKENS);
    }
    fields.text("user")?;
    let stream = fields.flag("stream")?.unwrap_or(false);
    let include_usage = match fields.take("stream_options") {
        Some(options) => Fields::new("stream_options", options)?.flag("include_usage")?.unwrap_or(false),
        None => false,
    };
    Ok(Wanted { prompt, params, stream, include_usage })
}

/// Absent, `default`, the served id, or the id's last part.
pub(crate) fn model(fields: &mut Fields, card: &ModelCard) -> Result<(), Refusal> {
    match fields.text("model")? {
        None => Ok(()),
        Some(name) => named(&name, card),
    }
}

/// 404 unless `name` is the model that is served.
pub(crate) fn named(name: &str, card: &ModelCard) -> Result<(), Refusal> {
    let base = card.id.rsplit('/').next().unwrap_or(&card.id);
    if name == "default" || name == card.id || name == base {
        return Ok(());
    }
    let message = format!("no model of this name is served; the served model is {}", card.id);
    Err(Refusal { param: Some("model".into()), code: Some("model_not_found"), ..Refusal::new(Kind::NotFound, message) })
}

fn chat(fields: &mut Fields) -> Result<Prompt, Refusal> {
    let list = fields.list("messages")?.ok_or_else(|| Refusal::field("messages", "must be an array of messages, not null or absent"))?;
    Ok(Prompt::Chat { messages: messages::read(list)?, kwargs: fields.object("chat_template_kwargs")?.unwrap_or_default() })
}

fn text(fields: &mut Fields) -> Result<Prompt, Refusal> {
    const ALLOWED: &str = "a string, an array of one string, or an array of token ids";
    match fields.take("prompt") {
        Some(Value::String(text)) => Ok(Prompt::Text(text)),
        Some(Value::Array(list)) => match list.first() {
            None => Err(Refusal::field("prompt", format!("must be {ALLOWED}, not an empty array"))),
            Some(Value::String(_) | Value::Array(_)) if list.len() > 1 => {
                Err(Refusal::unserved("prompt with several prompts", "send one request a prompt").at("prompt"))
            }
            Some(Value::String(text)) => Ok(Prompt::Text(text.clone())),
            Some(Value::Array(ids)) => ids_of("prompt[0]", ids).map(Prompt::Ids),
            Some(_) => ids_of("prompt", &list).map(Prompt::Ids),
        },
        Some(other) => Err(wrong("prompt", ALLOWED, &other)),
        None => Err(Refusal::field("prompt", format!("must be {ALLOWED}, not null or absent"))),
    }
}

/// Token ids; whether the model has them is for the model's side to say.
pub(crate) fn ids_of(path: &str, list: &[Value]) -> Result<Vec<u32>, Refusal> {
    let one = |(i, value)| {
        let id = integer(value).and_then(|n| u32::try_from(n).ok());
        id.ok_or_else(|| wrong(&format!("{path}[{i}]"), "a token id, an integer from 0", value))
    };
    list.iter().enumerate().map(one).collect()
}

fn params(fields: &mut Fields) -> Result<Params, Refusal> {
    let tokens = |n: i128| n as u32;
    let all = i128::from(u32::MAX);
    let older = fields.integer("max_tokens", 1..=all)?.map(tokens);
    let max_tokens = fields.integer("max_completion_tokens", 1..=all)?.map(tokens).or(older);
    let min_tokens = fields.integer("min_tokens", 0..=all)?.map_or(0, tokens);
    if max_tokens.is_some_and(|max| min_tokens > max) {
        return Err(Refusal::field("min_tokens", "must not be larger than max_tokens"));
    }
    let default = Params::default();
    Ok(Params {
        max_tokens,
        usual_tokens: None,
        min_tokens,
        temperature: fields.number("temperature", "a number from 0 to 2", |x| (0.0..=2.0).contains(&x))?.unwrap_or(default.temperature),
        top_p: fields.number("top_p", "a number above 0 and up to 1", |x| x > 0.0 && x <= 1.0)?.unwrap_or(default.top_p),
        // −1 is the older way to say "off".
        top_k: fields.integer("top_k", -1..=all)?.map_or(default.top_k, |k| k.max(0) as u32),
        min_p: fields.number("min_p", "a number from 0 to 1", |x| (0.0..=1.0).contains(&x))?.unwrap_or(default.min_p),
        // A negative seed is as good as any: its bits are kept.
        seed: fields.integer("seed", i128::from(i64::MIN)..=i128::from(u64::MAX))?.map(|n| n as u64),
        stop: stop(fields.take("stop"))?,
        ignore_eos: fields.flag("ignore_eos")?.unwrap_or(false),
    })
}

fn stop(value: Option<Value>) -> Result<Vec<String>, Refusal> {
    let one = |path: &str, value: Value| match value {
        Value::String(s) if !s.is_empty() => Ok(s),
        other => Err(wrong(path, "a string of at least one character", &other)),
    };
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() > STOPS_MAX => Err(Refusal::field("stop", format!("must have at most {STOPS_MAX} strings, not {}", list.len()))),
        Some(Value::Array(list)) => list.into_iter().enumerate().map(|(i, v)| one(&format!("stop[{i}]"), v)).collect(),
        Some(string @ Value::String(_)) => Ok(vec![one("stop", string)?]),
        Some(other) => Err(wrong("stop", "a string or an array of strings", &other)),
    }
}

/// Fields that would change the answer and that we cannot honour: silence about them would be a wrong answer.
fn refuse_unserved(fields: &mut Fields, shape: Shape) -> Result<(), Refusal> {
    if fields.integer("n", 1..=i128::from(u32::MAX))?.is_some_and(|n| n > 1) {
        return Err(Refusal::unserved("n above 1", "send one request an answer").at("n"));
    }
    for name in ["presence_penalty", "frequency_penalty"] {
        if fields.number(name, "a number from -2 to 2", |x| (-2.0..=2.0).contains(&x))?.is_some_and(|x| x != 0.0) {
            return Err(Refusal::unserved(name, "leave it out or send 0"));
        }
    }
    if fields.number("repetition_penalty", "a number above 0", |x| x > 0.0)?.is_some_and(|x| x != 1.0) {
        return Err(Refusal::unserved("repetition_penalty", "leave it out or send 1"));
    }
    if fields.object("logit_bias")?.is_some_and(|map| !map.is_empty()) {
        return Err(Refusal::unserved("logit_bias", "leave it out or send {}"));
    }
    if let Some(format) = fields.take("response_format") {
        let mut format = Fields::new("response_format", format)?;
        if format.text("type")?.as_deref() != Some("text") {
            return Err(Refusal::unserved("response_format", r#"leave it out or send {"type":"text"}"#));
        }
    }
    match shape {
        Shape::Chat => unserved_in_chat(fields),
        Shape::Text => unserved_in_text(fields),
    }
}

fn unserved_in_chat(fields: &mut Fields) -> Result<(), Refusal> {
    if fields.flag("logprobs")?.unwrap_or(false) {
        return Err(Refusal::unserved("logprobs", "leave it out or send false"));
    }
    if fields.integer("top_logprobs", 0..=20)?.is_some_and(|n| n > 0) {
        return Err(Refusal::unserved("top_logprobs", "leave it out or send 0"));
    }
    let choice = fields.take("tool_choice");
    let none = choice.as_ref().is_some_and(|c| c == "none");
    let forced = choice.as_ref().is_some_and(|c| c != "none" && c != "auto");
    for name in ["tools", "functions"] {
        if fields.list(name)?.is_some_and(|list| !list.is_empty()) && !none {
            return Err(Refusal::unserved(name, r#"leave it out or send tool_choice "none""#));
        }
    }
    if forced {
        return Err(Refusal::unserved("tool_choice", r#"leave it out or send "none""#));
    }
    Ok(())
}

fn unserved_in_text(fields: &mut Fields) -> Result<(), Refusal> {
    // Here `logprobs` is a number, and 0 still asks for the chosen token's; some clients send chat's false.
    if fields.take("logprobs").is_some_and(|v| v != false) {
        return Err(Refusal::unserved("logprobs", "leave it out"));
    }
    if fields.flag("echo")?.unwrap_or(false) {
        return Err(Refusal::unserved("echo", "leave it out or send false"));
    }
    if fields.text("suffix")?.is_some_and(|s| !s.is_empty()) {
        return Err(Refusal::unserved("suffix", "leave it out"));
    }
    if fields.integer("best_of", 1..=i128::from(u32::MAX))?.is_some_and(|n| n > 1) {
        return Err(Refusal::unserved("best_of", "leave it out or send 1"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "ask_tests.rs"]
mod tests;
