//! Chat messages: OpenAI's shapes in, what a chat template expects out.

use crate::fields::{Fields, wrong};
use crate::refusal::Refusal;
use serde_json::{Map, Value};

const ROLES: &str = r#"one of "system", "developer", "user", "assistant", "tool""#;

/// Objects with `role` and a string `content`, and what templates read of tool use (`name`, `tool_calls`, `tool_call_id`,
/// `reasoning_content`); other fields are dropped.
pub(crate) fn read(list: Vec<Value>) -> Result<Vec<Value>, Refusal> {
    if list.is_empty() {
        return Err(Refusal::field("messages", "must have at least one message"));
    }
    list.into_iter().enumerate().map(|(i, message)| one(Fields::new(format!("messages[{i}]"), message)?)).collect()
}

fn one(mut fields: Fields) -> Result<Value, Refusal> {
    let role = role(&mut fields)?;
    let mut out = Map::new();
    out.insert("role".into(), role.into());
    let calls = match role {
        "assistant" => fields.list("tool_calls")?.map(|list| tool_calls(&fields.path("tool_calls"), list)).transpose()?,
        _ => None,
    };
    let path = fields.path("content");
    let content = match fields.take("content") {
        Some(content) => text(&path, content)?,
        // An assistant that only called tools, or was cut before its first word, has said nothing.
        None if role == "assistant" => String::new(),
        None => return Err(Refusal::field(path, "must be a string or an array of text parts, not null or absent")),
    };
    out.insert("content".into(), content.into());
    for name in ["name", "tool_call_id", "reasoning_content"] {
        if let Some(value) = fields.text(name)? {
            out.insert(name.into(), value.into());
        }
    }
    if let Some(calls) = calls.filter(|c| !c.is_empty()) {
        out.insert("tool_calls".into(), calls.into());
    }
    Ok(Value::Object(out))
}

/// `developer` is OpenAI's later word for `system`. Templates that know it treat both alike, the others know only `system`.
fn role(fields: &mut Fields) -> Result<&'static str, Refusal> {
    let path = fields.path("role");
    match fields.take("role") {
        Some(Value::String(role)) => match role.as_str() {
            "system" | "developer" => Ok("system"),
            "user" => Ok("user"),
            "assistant" => Ok("assistant"),
            "tool" => Ok("tool"),
            _ => Err(Refusal::field(path, format!("must be {ROLES}, not another string"))),
        },
        Some(other) => Err(wrong(&path, ROLES, &other)),
        None => Err(Refusal::field(path, format!("must be {ROLES}, not null or absent"))),
    }
}

/// A string, or text parts set end to end.
fn text(path: &str, content: Value) -> Result<String, Refusal> {
    parts(path, content, |part| {
        let kind = part.path("type");
        if part.text("type")?.as_deref() != Some("text") {
            return Err(Refusal::field(kind, r#"must be "text": this server takes no other parts"#));
        }
        let at = part.path("text");
        part.text("text")?.ok_or_else(|| Refusal::field(at, "must be a string, not null or absent"))
    })
}

/// A string, or parts set end to end, each read by `one`.
pub(crate) fn parts(path: &str, content: Value, one: impl Fn(&mut Fields) -> Result<String, Refusal>) -> Result<String, Refusal> {
    let parts = match content {
        Value::String(text) => return Ok(text),
        Value::Array(parts) => parts,
        other => return Err(wrong(path, "a string or an array of text parts", &other)),
    };
    let mut joined = String::new();
    for (i, part) in parts.into_iter().enumerate() {
        joined += &one(&mut Fields::new(format!("{path}[{i}]"), part)?)?;
    }
    Ok(joined)
}

/// Earlier calls of tools. OpenAI writes their arguments as JSON in a string, templates expect the object.
fn tool_calls(path: &str, list: Vec<Value>) -> Result<Vec<Value>, Refusal> {
    let one = |(i, call)| {
        let mut call = Fields::new(format!("{path}[{i}]"), call)?;
        call.text("type")?;
        let at = call.path("function");
        let function = call.take("function").ok_or_else(|| Refusal::field(&at, "must be a JSON object, not null or absent"))?;
        let mut function = Fields::new(at, function)?;
        let at = function.path("name");
        let name = function.text("name")?.ok_or_else(|| Refusal::field(at, "must be a string, not null or absent"))?;
        let arguments = arguments(&function.path("arguments"), function.take("arguments"))?;
        let mut out = Map::new();
        if let Some(id) = call.text("id")? {
            out.insert("id".into(), id.into());
        }
        out.insert("type".into(), "function".into());
        out.insert("function".into(), Map::from_iter([("name".into(), name.into()), ("arguments".into(), arguments)]).into());
        Ok(Value::Object(out))
    };
    list.into_iter().enumerate().map(one).collect()
}

fn arguments(path: &str, value: Option<Value>) -> Result<Value, Refusal> {
    const ALLOWED: &str = "must be a JSON object, or a string that holds one";
    match value {
        None => Ok(Map::new().into()),
        Some(Value::Object(map)) => Ok(map.into()),
        Some(Value::String(s)) if s.trim().is_empty() => Ok(Map::new().into()),
        Some(Value::String(s)) => serde_json::from_str::<Map<String, Value>>(&s).map(Value::Object).map_err(|_| Refusal::field(path, ALLOWED)),
        Some(_) => Err(Refusal::field(path, ALLOWED)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_template_sees() {
        let rows = [
            (json!({"role": "user", "content": "a"}), json!({"role": "user", "content": "a"})),
            (json!({"role": "developer", "content": ""}), json!({"role": "system", "content": ""})),
            (json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}), json!({"role": "user", "content": "ab"})),
            (json!({"role": "user", "content": []}), json!({"role": "user", "content": ""})),
            (json!({"role": "assistant", "content": null, "refusal": null}), json!({"role": "assistant", "content": ""})),
            (json!({"role": "tool", "content": "7", "tool_call_id": "c"}), json!({"role": "tool", "content": "7", "tool_call_id": "c"})),
            (
                json!({"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]}),
                json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]}),
            ),
        ];
        for (message, seen) in rows {
            assert_eq!(read(vec![message.clone()]).unwrap(), [seen], "{message}");
        }
    }

    #[test]
    fn bad_messages_name_the_part() {
        let calls = |function: Value| json!({"role": "assistant", "tool_calls": [{"function": function}]});
        let rows = [
            (json!("hello"), "messages[0]"),
            (json!({"content": "a"}), "messages[0].role"),
            (json!({"role": "robot", "content": "a"}), "messages[0].role"),
            (json!({"role": 3, "content": "a"}), "messages[0].role"),
            (json!({"role": "user"}), "messages[0].content"),
            (json!({"role": "user", "content": null}), "messages[0].content"),
            (json!({"role": "user", "content": 5}), "messages[0].content"),
            (json!({"role": "user", "content": ["a"]}), "messages[0].content[0]"),
            (json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}), "messages[0].content[1].type"),
            (json!({"role": "user", "content": [{"type": "text"}]}), "messages[0].content[0].text"),
            (json!({"role": "user", "content": "a", "name": 1}), "messages[0].name"),
            (json!({"role": "assistant", "tool_calls": {}}), "messages[0].tool_calls"),
            (json!({"role": "assistant", "tool_calls": [1]}), "messages[0].tool_calls[0]"),
            (calls(json!(null)), "messages[0].tool_calls[0].function"),
            (calls(json!({})), "messages[0].tool_calls[0].function.name"),
            (calls(json!({"name": "f", "arguments": "[1]"})), "messages[0].tool_calls[0].function.arguments"),
        ];
        for (message, param) in rows {
            let refusal = read(vec![message.clone()]).unwrap_err();
            assert_eq!(refusal.param.as_deref(), Some(param), "{message}: {}", refusal.message);
        }
        assert_eq!(read(vec![]).unwrap_err().param.as_deref(), Some("messages"));
    }
}
