//! What a client wants: the bodies of `/v1/chat/completions` and `/v1/completions`, every field checked.

pub(crate) mod form;
pub(crate) mod params;

use crate::fields::{Fields, integer, wrong};
use crate::messages;
use crate::openai::Shape;
use crate::refusal::{Kind, Refusal};
use actors::{Form, ModelCard, Params, Prompt};
use serde_json::{Map, Value};

/// What `/v1/completions` answers with if it is not told how many: OpenAI's number. Chat has no such number.
const COMPLETION_TOKENS: u32 = 16;

/// Answers that one request may want.
const CHOICES_MAX: i128 = 128;

/// A request that can be handed on.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) prompt: Prompt,
    pub(crate) params: Params,
    pub(crate) form: Form,
    /// Answers, 1 at least.
    pub(crate) n: u32,
    pub(crate) stream: bool,
    /// A last chunk with `usage` and no choices.
    pub(crate) include_usage: bool,
}

/// Reads a whole body.
pub(crate) fn read(shape: Shape, body: Value, card: &ModelCard) -> Result<Wanted, Refusal> {
    let mut fields = Fields::new("", body)?;
    model(&mut fields, card)?;
    let mut params = params::read(&mut fields, &params::OPENAI)?;
    let (prompt, form) = match shape {
        Shape::Chat => {
            params.logprobs = params::chat_logprobs(&mut fields)?;
            chat(&mut fields)?
        }
        Shape::Text => {
            params.usual_tokens = Some(COMPLETION_TOKENS);
            params.logprobs = params::text_logprobs(&mut fields)?;
            unserved_in_text(&mut fields)?;
            (text(&mut fields)?, Form { grammar: form::format(&mut fields)?, ..Form::default() })
        }
    };
    form::ends(&params, &form, "stop")?;
    fields.text("user")?;
    let n = fields.integer("n", 1..=CHOICES_MAX)?.map_or(1, |n| n as u32);
    let stream = fields.flag("stream")?.unwrap_or(false);
    let include_usage = match fields.take("stream_options") {
        Some(options) => Fields::new("stream_options", options)?.flag("include_usage")?.unwrap_or(false),
        None => false,
    };
    if fields.integer("best_of", 1..=CHOICES_MAX)?.is_some_and(|best| best > i128::from(n)) {
        return Err(Refusal::unserved("best_of above n", "leave it out or send n").at("best_of"));
    }
    if fields.text("adapter")?.is_some() {
        return Err(Refusal::unserved("adapter", "leave it out"));
    }
    Ok(Wanted { prompt, params, form, n, stream, include_usage })
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

fn chat(fields: &mut Fields) -> Result<(Prompt, Form), Refusal> {
    let list = fields.list("messages")?.ok_or_else(|| Refusal::field("messages", "must be an array of messages, not null or absent"))?;
    let messages = messages::read(list)?;
    let mut kwargs = fields.object("chat_template_kwargs")?.unwrap_or_default();
    reasoning_effort(fields, &mut kwargs)?;
    let form = form::read(fields, &mut kwargs)?;
    Ok((Prompt::Chat { messages, kwargs }, form))
}

fn reasoning_effort(fields: &mut Fields, kwargs: &mut Map<String, Value>) -> Result<(), Refusal> {
    effort("reasoning_effort", fields.take("reasoning_effort"), kwargs)
}

/// How much to reason. Templates that know the word read it; others know only whether to reason at all.
pub(crate) fn effort(path: &str, value: Option<Value>, kwargs: &mut Map<String, Value>) -> Result<(), Refusal> {
    const ALLOWED: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    let allowed = || format!("one of {}", ALLOWED.map(|word| format!("{word:?}")).join(", "));
    match value {
        None => {}
        Some(Value::String(word)) if !ALLOWED.contains(&word.as_str()) => return Err(Refusal::field(path, format!("must be {}", allowed()))),
        Some(Value::String(word)) if word == "none" => drop(kwargs.entry("enable_thinking").or_insert(false.into())),
        Some(Value::String(word)) => drop(kwargs.entry("reasoning_effort").or_insert(word.into())),
        Some(other) => return Err(wrong(path, &allowed(), &other)),
    }
    Ok(())
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

/// Fields that would change the answer and that we cannot honour: silence about them would be a wrong answer.
fn unserved_in_text(fields: &mut Fields) -> Result<(), Refusal> {
    if fields.flag("echo")?.unwrap_or(false) {
        return Err(Refusal::unserved("echo", "leave it out or send false"));
    }
    if fields.text("suffix")?.is_some_and(|s| !s.is_empty()) {
        return Err(Refusal::unserved("suffix", "leave it out"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
