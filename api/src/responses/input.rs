//! Input items: OpenAI's shapes in, what a chat template expects out.

use crate::fields::{Fields, wrong};
use crate::messages;
use crate::refusal::Refusal;
use crate::turns::Turns;
use serde_json::{Map, Value};

const ROLES: &str = r#"one of "user", "assistant", "system", "developer""#;

/// Adds what the client says to `turns`.
pub(super) fn read(turns: &mut Turns, input: Value) -> Result<(), Refusal> {
    match input {
        Value::String(text) => turns.say("user", &text),
        Value::Array(items) => {
            for (i, value) in items.into_iter().enumerate() {
                item(turns, Fields::new(format!("input[{i}]"), value)?)?;
            }
        }
        other => return Err(wrong("input", "a string or an array of items", &other)),
    }
    Ok(())
}

fn item(turns: &mut Turns, mut item: Fields) -> Result<(), Refusal> {
    let path = item.path("type");
    match item.text("type")?.as_deref() {
        None | Some("message") => message(turns, item),
        Some("function_call") => {
            let (id, name) = (required(&mut item, "call_id")?, required(&mut item, "name")?);
            let path = item.path("arguments");
            let arguments = required(&mut item, "arguments")?;
            let arguments = if arguments.trim().is_empty() { Ok(Map::new()) } else { serde_json::from_str(&arguments) };
            turns.call(id, name, arguments.map_err(|_| Refusal::field(path, "must be a string that holds a JSON object"))?);
            Ok(())
        }
        Some("function_call_output") => {
            let (id, path) = (required(&mut item, "call_id")?, item.path("output"));
            let output = item.take("output").ok_or_else(|| Refusal::field(&path, "must be a string or an array of text parts, not null or absent"))?;
            turns.result(id, text(&path, output)?);
            Ok(())
        }
        // What was thought in earlier turns is not read again.
        Some("reasoning") => Ok(()),
        Some(_) => {
            let allowed = r#"must be "message", "function_call", "function_call_output" or "reasoning": this server knows no other items"#;
            Err(Refusal::field(path, allowed))
        }
    }
}

fn message(turns: &mut Turns, mut message: Fields) -> Result<(), Refusal> {
    let path = message.path("role");
    let role = match message.text("role")?.as_deref() {
        Some("user") => "user",
        Some("assistant") => "assistant",
        Some("system" | "developer") => "system",
        Some(_) => return Err(Refusal::field(path, format!("must be {ROLES}, not another string"))),
        None => return Err(Refusal::field(path, format!("must be {ROLES}, not null or absent"))),
    };
    let path = message.path("content");
    let content = message.take("content").ok_or_else(|| Refusal::field(&path, "must be a string or an array of text parts, not null or absent"))?;
    turns.say(role, &text(&path, content)?);
    Ok(())
}

/// A string, or text parts set end to end: the client's, or those of an answer that it sends back.
fn text(path: &str, content: Value) -> Result<String, Refusal> {
    messages::parts(path, content, |part| match part.text("type")?.as_deref() {
        Some("input_text" | "output_text") => required(part, "text"),
        Some("refusal") => required(part, "refusal"),
        _ => {
            let allowed = r#"must be "input_text" or "output_text": this server reads text, and no images, files or other parts"#;
            Err(Refusal::field(part.path("type"), allowed))
        }
    })
}

fn required(item: &mut Fields, name: &str) -> Result<String, Refusal> {
    let path = item.path(name);
    item.text(name)?.ok_or_else(|| Refusal::field(path, "must be a string, not null or absent"))
}
