//! What a client wants: the body of `/v1/messages`, every field checked.

use super::messages;
use crate::ask::params::{self, Names};
use crate::ask::{self, Wanted, form};
use crate::fields::{Fields, wrong};
use crate::refusal::Refusal;
use actors::{Choice, Form, Grammar, ModelCard, Prompt, Tool};
use serde_json::{Map, Value};

const NAMES: Names = Names { max_tokens: &["max_tokens"], stop: "stop_sequences", temperature_max: 1.0 };

/// Reads a whole body.
pub(super) fn read(body: Value, card: &ModelCard) -> Result<Wanted, Refusal> {
    let mut fields = Fields::new("", body)?;
    ask::model(&mut fields, card)?;
    let params = params::read(&mut fields, &NAMES)?;
    if params.max_tokens.is_none() {
        return Err(Refusal::field("max_tokens", "must be an integer from 1, not null or absent"));
    }
    let stream = fields.flag("stream")?.unwrap_or(false);
    if let Some(metadata) = fields.take("metadata") {
        Fields::new("metadata", metadata)?.text("user_id")?;
    }
    let Asked { messages, kwargs, form } = asked(&mut fields)?;
    form::ends(&params, &form, NAMES.stop)?;
    if messages.last().is_some_and(|message| message["role"] == "assistant") {
        return Err(Refusal::field("messages", "must not end with a message of the assistant: this server does not continue one"));
    }
    Ok(Wanted { prompt: Prompt::Chat { messages, kwargs }, params, form, n: 1, stream, include_usage: true })
}

/// Reads a body of `/v1/messages/count_tokens`: what would be asked, and nothing of how.
pub(super) fn counted(body: Value, card: &ModelCard) -> Result<Prompt, Refusal> {
    let mut fields = Fields::new("", body)?;
    ask::model(&mut fields, card)?;
    let Asked { messages, kwargs, .. } = asked(&mut fields)?;
    Ok(Prompt::Chat { messages, kwargs })
}

/// What is asked, and in which form.
struct Asked {
    messages: Vec<Value>,
    /// What the template is to know beside them.
    kwargs: Map<String, Value>,
    form: Form,
}

fn asked(fields: &mut Fields) -> Result<Asked, Refusal> {
    unserved(fields)?;
    let system = fields.take("system");
    let list = fields.list("messages")?.ok_or_else(|| Refusal::field("messages", "must be an array of messages, not null or absent"))?;
    let messages = messages::read(system, list)?;
    let mut kwargs = fields.object("chat_template_kwargs")?.unwrap_or_default();
    thinking(fields, &mut kwargs)?;
    let grammar = output(fields, &mut kwargs)?;
    let tools = form::tools(fields, ".name", tool)?;
    let (choice, parallel) = choice(fields, &tools)?;
    let form = form::offered(Form { tools, choice, parallel, grammar }, "output_config.format", &mut kwargs)?;
    Ok(Asked { messages, kwargs, form })
}

/// What would change the answer and cannot be honoured.
fn unserved(fields: &mut Fields) -> Result<(), Refusal> {
    if fields.list("mcp_servers")?.is_some_and(|list| !list.is_empty()) {
        return Err(Refusal::unserved("mcp_servers", "leave it out"));
    }
    if fields.take("container").is_some() {
        return Err(Refusal::unserved("container", "leave it out"));
    }
    Ok(())
}

/// Whether to reason. A budget of its own reasoning has not: the answer's limit holds for all of it.
fn thinking(fields: &mut Fields, kwargs: &mut Map<String, Value>) -> Result<(), Refusal> {
    let Some(thinking) = fields.take("thinking") else { return Ok(()) };
    let mut thinking = Fields::new("thinking", thinking)?;
    thinking.integer("budget_tokens", 1..=i128::from(u32::MAX))?;
    let on = match thinking.text("type")?.as_deref() {
        Some("enabled" | "adaptive") => true,
        Some("disabled") => false,
        _ => return Err(Refusal::field("thinking.type", r#"must be "enabled", "disabled" or "adaptive""#)),
    };
    kwargs.entry("enable_thinking").or_insert(on.into());
    Ok(())
}

/// How much to reason, and a schema that all of the answer is to follow.
fn output(fields: &mut Fields, kwargs: &mut Map<String, Value>) -> Result<Option<Grammar>, Refusal> {
    let Some(config) = fields.take("output_config") else { return Ok(None) };
    let mut config = Fields::new("output_config", config)?;
    ask::effort("output_config.effort", config.take("effort"), kwargs)?;
    let Some(format) = config.take("format") else { return Ok(None) };
    let mut format = Fields::new("output_config.format", format)?;
    if format.text("type")?.as_deref() != Some("json_schema") {
        return Err(Refusal::field("output_config.format.type", r#"must be "json_schema""#));
    }
    let schema = format.object("schema")?;
    let schema = schema.ok_or_else(|| Refusal::field("output_config.format.schema", "must be a JSON Schema, an object, not null or absent"))?;
    Ok(Some(Grammar::Schema(schema.into())))
}

fn tool(at: String, tool: Value) -> Result<Tool, Refusal> {
    let mut tool = Fields::new(at, tool)?;
    let kind = tool.path("type");
    if tool.text("type")?.is_some_and(|kind| kind != "custom") {
        return Err(Refusal::field(kind, r#"must be "custom" or absent: this server has no tools of its own"#));
    }
    let name = form::name(&mut tool)?;
    let (description, strict) = (tool.text("description")?, tool.flag("strict")?.unwrap_or(false));
    let at = tool.path("input_schema");
    let schema = tool.object("input_schema")?.ok_or_else(|| Refusal::field(at, "must be a JSON Schema, an object, not null or absent"))?;
    Ok(Tool { name, description, parameters: form::parameters(Some(schema)), strict })
}

/// Which tools the answer may or must call, and whether more than one.
fn choice(fields: &mut Fields, tools: &[Tool]) -> Result<(Choice, bool), Refusal> {
    const KINDS: &str = r#""auto", "any", "tool" or "none""#;
    let Some(choice) = fields.take("tool_choice") else { return Ok((Choice::Auto, true)) };
    let mut choice = Fields::new("tool_choice", choice)?;
    let parallel = !choice.flag("disable_parallel_tool_use")?.unwrap_or(false);
    let kind = match choice.take("type") {
        Some(Value::String(kind)) => kind,
        other => return Err(wrong("tool_choice.type", KINDS, &other.unwrap_or_default())),
    };
    let choice = match kind.as_str() {
        "auto" => Choice::Auto,
        "any" => Choice::Required,
        "tool" => Choice::Named(form::name(&mut choice)?),
        "none" => Choice::None,
        _ => return Err(Refusal::field("tool_choice.type", format!("must be {KINDS}, not another string"))),
    };
    Ok((form::possible(choice, tools, "tool_choice.name")?, parallel))
}
