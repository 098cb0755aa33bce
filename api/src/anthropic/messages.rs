//! Messages: Anthropic's blocks in, what a chat template expects out.

use crate::fields::{Fields, wrong};
use crate::refusal::Refusal;
use crate::turns::Turns;
use serde_json::{Map, Value};

const ROLES: &str = r#""user" or "assistant""#;

/// The system prompt, then the turns. Blocks of one turn that are text are set apart by an empty line.
pub(super) fn read(system: Option<Value>, list: Vec<Value>) -> Result<Vec<Value>, Refusal> {
    if list.is_empty() {
        return Err(Refusal::field("messages", "must have at least one message"));
    }
    let mut turns = Turns::default();
    if let Some(system) = system {
        let text = text("system", system)?;
        if !text.is_empty() {
            turns.say("system", &text);
        }
    }
    for (i, message) in list.into_iter().enumerate() {
        one(&mut turns, Fields::new(format!("messages[{i}]"), message)?)?;
    }
    Ok(turns.messages())
}

fn one(turns: &mut Turns, mut message: Fields) -> Result<(), Refusal> {
    let path = message.path("role");
    let role = match message.text("role")?.as_deref() {
        Some("user") => "user",
        Some("assistant") => "assistant",
        // Newer clients change their instructions so, in mid-conversation.
        Some("system") => "system",
        Some(_) => return Err(Refusal::field(path, format!("must be {ROLES}, not another string"))),
        None => return Err(Refusal::field(path, format!("must be {ROLES}, not null or absent"))),
    };
    let path = message.path("content");
    match message.take("content") {
        Some(Value::String(text)) => turns.say(role, &text),
        Some(Value::Array(blocks)) => {
            for (i, value) in blocks.into_iter().enumerate() {
                block(turns, role, Fields::new(format!("{path}[{i}]"), value)?)?;
            }
        }
        other => return Err(wrong(&path, "a string or an array of blocks", &other.unwrap_or_default())),
    }
    Ok(())
}

fn block(turns: &mut Turns, role: &'static str, mut block: Fields) -> Result<(), Refusal> {
    let kind = block.text("type")?;
    match (role, kind.as_deref()) {
        (_, Some("text")) => turns.say(role, &required(&mut block, "text")?),
        ("user", Some("tool_result")) => {
            let (id, path) = (required(&mut block, "tool_use_id")?, block.path("content"));
            let said = block.take("content").map(|content| text(&path, content)).transpose()?.unwrap_or_default();
            let failed = block.flag("is_error")?.unwrap_or(false);
            turns.result(id, if failed { failure(said) } else { said });
        }
        ("assistant", Some("thinking")) => {
            block.text("signature")?;
            turns.reason(&required(&mut block, "thinking")?);
        }
        // Only who wrote it can read it.
        ("assistant", Some("redacted_thinking")) => {}
        ("assistant", Some("tool_use")) => {
            let (id, name) = (required(&mut block, "id")?, required(&mut block, "name")?);
            let path = block.path("input");
            let input: Option<Map<String, Value>> = block.object("input")?;
            turns.call(id, name, input.ok_or_else(|| Refusal::field(path, "must be a JSON object, not null or absent"))?);
        }
        _ => {
            let allowed = match role {
                "user" => r#""text" or "tool_result""#,
                "assistant" => r#""text", "thinking", "redacted_thinking" or "tool_use""#,
                _ => r#""text""#,
            };
            let message = format!("must be {allowed} in a message of this role: this server reads text, and no images, documents or other blocks");
            return Err(Refusal::field(block.path("type"), message));
        }
    }
    Ok(())
}

/// Templates have no place for it but the text.
fn failure(said: String) -> String {
    if said.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error")) { said } else { format!("Error: {said}") }
}

/// A string, or text blocks.
fn text(path: &str, content: Value) -> Result<String, Refusal> {
    let blocks = match content {
        Value::String(text) => return Ok(text),
        Value::Array(blocks) => blocks,
        other => return Err(wrong(path, "a string or an array of text blocks", &other)),
    };
    let mut texts = Vec::with_capacity(blocks.len());
    for (i, block) in blocks.into_iter().enumerate() {
        let mut block = Fields::new(format!("{path}[{i}]"), block)?;
        if block.text("type")?.as_deref() != Some("text") {
            return Err(Refusal::field(block.path("type"), r#"must be "text": this server reads no other blocks here"#));
        }
        texts.push(required(&mut block, "text")?);
    }
    texts.retain(|text| !text.is_empty());
    Ok(texts.join("\n\n"))
}

fn required(block: &mut Fields, name: &str) -> Result<String, Refusal> {
    let path = block.path(name);
    block.text(name)?.ok_or_else(|| Refusal::field(path, "must be a string, not null or absent"))
}
