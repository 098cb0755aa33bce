//! What a client wants: the body of `/v1/responses`, every field checked.

use super::input;
use super::store::Stored;
use crate::ask::params::{self, Names};
use crate::ask::{self, Wanted, form};
use crate::fields::{Fields, wrong};
use crate::refusal::{Kind, Refusal};
use crate::turns::Turns;
use actors::{Choice, Form, Grammar, ModelCard, Params, Prompt, Tool};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const NAMES: Names = Names { max_tokens: &["max_output_tokens"], stop: "stop", temperature_max: 2.0 };
/// Entries of `metadata`, which is kept and given back: OpenAI's number.
const METADATA_MAX: usize = 16;
const LOGPROBS: &str = "message.output_text.logprobs";

/// A request that can be handed on, and what its answer needs to know of it.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) wanted: Wanted,
    /// The fields of the response object that repeat the request's.
    pub(super) echo: Map<String, Value>,
    /// All that is said before the answer, without instructions: what later turns go on from. None: the answer is not kept.
    pub(super) messages: Option<Vec<Value>>,
}

/// Reads a whole body; `earlier` finds an answer of the same key.
pub(super) fn read(body: Value, card: &ModelCard, earlier: impl FnOnce(&str) -> Option<Arc<Stored>>) -> Result<Asked, Refusal> {
    let mut fields = Fields::new("", body)?;
    ask::model(&mut fields, card)?;
    let mut params = params::read(&mut fields, &NAMES)?;
    params.logprobs = logprobs(&mut fields)?;
    unserved(&mut fields)?;
    let store = fields.flag("store")?.unwrap_or(true);
    let stream = fields.flag("stream")?.unwrap_or(false);
    let mut echo = Map::new();
    texts(&mut fields, &mut echo)?;
    let before = match echo.get("previous_response_id").and_then(Value::as_str) {
        Some(id) => earlier(id).ok_or_else(|| not_found("previous_response_id"))?.messages.clone(),
        None => Vec::new(),
    };
    let mut turns = Turns::after(before);
    match fields.take("input") {
        Some(items) => input::read(&mut turns, items)?,
        None => return Err(Refusal::field("input", "must be a string or an array of items, not null or absent")),
    }
    let said = turns.messages();
    let mut kwargs = fields.object("chat_template_kwargs")?.unwrap_or_default();
    reasoning(&mut fields, &mut kwargs, &mut echo)?;
    let form = form(&mut fields, &mut kwargs, &mut echo)?;
    form::ends(&params, &form, NAMES.stop)?;
    repeat(&params, store, &mut echo);
    let messages = instructed(echo.get("instructions").and_then(Value::as_str), &said);
    if messages.is_empty() {
        return Err(Refusal::field("input", "must have at least one item that says something"));
    }
    let wanted = Wanted { prompt: Prompt::Chat { messages, kwargs }, params, form, n: 1, stream, include_usage: true };
    Ok(Asked { wanted, echo, messages: store.then_some(said) })
}

pub(super) fn not_found(param: &str) -> Refusal {
    let message = format!("{param} must be the id of an answer that this key was given and that is still kept; this one is not");
    Refusal { param: Some(param.to_owned()), code: Some("response_not_found"), ..Refusal::new(Kind::NotFound, message) }
}

/// Instructions hold for one answer. Where the conversation begins with more of the kind, the two are one message.
fn instructed(instructions: Option<&str>, said: &[Value]) -> Vec<Value> {
    let Some(instructions) = instructions.filter(|text| !text.is_empty()) else { return said.to_vec() };
    let mut turns = Turns::default();
    turns.say("system", instructions);
    let mut rest = said;
    if let Some((first, others)) = said.split_first()
        && first["role"] == "system"
    {
        turns.say("system", first["content"].as_str().unwrap_or_default());
        rest = others;
    }
    let mut messages = turns.messages();
    messages.extend_from_slice(rest);
    messages
}

/// What would change the answer, or be waited for, and cannot be honoured.
fn unserved(fields: &mut Fields) -> Result<(), Refusal> {
    if fields.flag("background")?.unwrap_or(false) {
        return Err(Refusal::unserved("background", "leave it out or send false"));
    }
    for name in ["conversation", "prompt"] {
        if fields.take(name).is_some() {
            return Err(Refusal::unserved(name, "leave it out"));
        }
    }
    match fields.text("truncation")?.as_deref() {
        None | Some("disabled") => Ok(()),
        Some("auto") => Err(Refusal::unserved(r#"truncation "auto""#, r#"leave it out or send "disabled""#).at("truncation")),
        Some(_) => Err(Refusal::field("truncation", r#"must be "disabled""#)),
    }
}

/// What is taken and given back as it is.
fn texts(fields: &mut Fields, echo: &mut Map<String, Value>) -> Result<(), Refusal> {
    for name in ["instructions", "previous_response_id", "user"] {
        echo.insert(name.into(), fields.text(name)?.map_or(Value::Null, Value::from));
    }
    let metadata = fields.object("metadata")?.unwrap_or_default();
    if metadata.len() > METADATA_MAX {
        return Err(Refusal::field("metadata", format!("must have at most {METADATA_MAX} entries, not {}", metadata.len())));
    }
    if let Some((name, value)) = metadata.iter().find(|(_, value)| !value.is_string()) {
        return Err(wrong(&format!("metadata.{name}"), "a string", value));
    }
    echo.insert("metadata".into(), metadata.into());
    Ok(())
}

/// Log-probabilities are an extra that is asked for by name; the encrypted reasoning of stateless clients is taken as asked for, and
/// there is none: reasoning is in plain sight here.
fn logprobs(fields: &mut Fields) -> Result<Option<u8>, Refusal> {
    let mut wanted = false;
    for (i, name) in fields.list("include")?.unwrap_or_default().iter().enumerate() {
        match name.as_str() {
            Some(LOGPROBS) => wanted = true,
            Some("reasoning.encrypted_content") => {}
            _ => return Err(Refusal::field(format!("include[{i}]"), format!("must be {LOGPROBS:?}: this server has no other extras"))),
        }
    }
    let top = params::top_logprobs(fields)?;
    if top > 0 && !wanted {
        return Err(Refusal::field("top_logprobs", format!("must be 0 or absent unless include has {LOGPROBS:?}")));
    }
    Ok(wanted.then_some(top))
}

fn reasoning(fields: &mut Fields, kwargs: &mut Map<String, Value>, echo: &mut Map<String, Value>) -> Result<(), Refusal> {
    let Some(reasoning) = fields.take("reasoning") else {
        echo.insert("reasoning".into(), json!({"effort": null, "summary": null}));
        return Ok(());
    };
    let mut reasoning = Fields::new("reasoning", reasoning)?;
    let effort = reasoning.take("effort");
    echo.insert("reasoning".into(), json!({"effort": effort, "summary": null}));
    ask::effort("reasoning.effort", effort, kwargs)
}

/// The answer's form: tools in their flat shape, or JSON.
fn form(fields: &mut Fields, kwargs: &mut Map<String, Value>, echo: &mut Map<String, Value>) -> Result<Form, Refusal> {
    let grammar = format(fields, echo)?;
    let tools = form::tools(fields, ".name", tool)?;
    let shown =
        |tool: &Tool| json!({"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters, "strict": tool.strict});
    echo.insert("tools".into(), tools.iter().map(shown).collect());
    let choice = choice(fields, &tools)?;
    let word = match &choice {
        Choice::None => json!("none"),
        Choice::Auto => json!("auto"),
        Choice::Required => json!("required"),
        Choice::Named(name) => json!({"type": "function", "name": name}),
    };
    echo.insert("tool_choice".into(), word);
    let parallel = fields.flag("parallel_tool_calls")?.unwrap_or(true);
    echo.insert("parallel_tool_calls".into(), parallel.into());
    form::offered(Form { tools, choice, parallel, grammar }, "text.format", kwargs)
}

fn tool(at: String, tool: Value) -> Result<Tool, Refusal> {
    let mut tool = Fields::new(at, tool)?;
    if tool.text("type")?.as_deref() != Some("function") {
        return Err(Refusal::field(tool.path("type"), r#"must be "function": this server has no tools of its own"#));
    }
    let name = form::name(&mut tool)?;
    let (description, strict) = (tool.text("description")?, tool.flag("strict")?.unwrap_or(false));
    Ok(Tool { name, description, parameters: form::parameters(tool.object("parameters")?), strict })
}

fn choice(fields: &mut Fields, tools: &[Tool]) -> Result<Choice, Refusal> {
    const CHOICES: &str = r#""none", "auto", "required" or {"type":"function","name":…}"#;
    let choice = match fields.take("tool_choice") {
        None => Choice::Auto,
        Some(Value::String(word)) => match word.as_str() {
            "none" => Choice::None,
            "auto" => Choice::Auto,
            "required" => Choice::Required,
            _ => return Err(Refusal::field("tool_choice", format!("must be {CHOICES}, not another string"))),
        },
        Some(value @ Value::Object(_)) => {
            let mut choice = Fields::new("tool_choice", value)?;
            if choice.text("type")?.as_deref() != Some("function") {
                return Err(Refusal::field("tool_choice.type", r#"must be "function""#));
            }
            Choice::Named(form::name(&mut choice)?)
        }
        Some(other) => return Err(wrong("tool_choice", CHOICES, &other)),
    };
    form::possible(choice, tools, "tool_choice.name")
}

/// What all of the answer is to be; None: text.
fn format(fields: &mut Fields, echo: &mut Map<String, Value>) -> Result<Option<Grammar>, Refusal> {
    let format = match fields.take("text") {
        Some(text) => Fields::new("text", text)?.take("format"),
        None => None,
    };
    let format = format.unwrap_or_else(|| json!({"type": "text"}));
    echo.insert("text".into(), json!({"format": format}));
    let mut format = Fields::new("text.format", format)?;
    match format.text("type")?.as_deref() {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(Grammar::Schema(json!({"type": "object"})))),
        Some("json_schema") => {
            if format.text("name")?.is_none() {
                return Err(Refusal::field("text.format.name", "must be a string, not null or absent"));
            }
            format.text("description")?;
            format.flag("strict")?;
            let schema = format.object("schema")?;
            let schema = schema.ok_or_else(|| Refusal::field("text.format.schema", "must be a JSON Schema, an object, not null or absent"))?;
            Ok(Some(Grammar::Schema(schema.into())))
        }
        _ => Err(Refusal::field("text.format.type", r#"must be "text", "json_object" or "json_schema""#)),
    }
}

/// What the request left out is given back as it was understood.
fn repeat(params: &Params, store: bool, echo: &mut Map<String, Value>) {
    // As a double, an f32 would show digits that nobody wrote.
    let number = |x: f32| x.to_string().parse::<f64>().map_or(Value::Null, Value::from);
    echo.insert("max_output_tokens".into(), params.max_tokens.map_or(Value::Null, Value::from));
    echo.insert("temperature".into(), number(params.temperature));
    echo.insert("top_p".into(), number(params.top_p));
    echo.insert("top_logprobs".into(), params.logprobs.unwrap_or(0).into());
    echo.insert("truncation".into(), "disabled".into());
    echo.insert("background".into(), false.into());
    echo.insert("store".into(), store.into());
}
