//! Calls in tags: Qwen3-Coder's and MiniCPM's.

use serde_json::{Value, json};

use super::calls::{length_of, literals};
use super::rules::{Rules, json_of};
use crate::dialect::Dialect;
use crate::offer::{Kinds, Tool, lookup, quoted};

/// What follows the opening mark of that number: the rule's name.
pub(super) fn calls(rules: &mut Rules, dialect: Dialect, mark: usize, tools: &[&Tool]) -> String {
    let qwen = dialect == Dialect::QwenCoder;
    let rule = format!("behind{mark}");
    if qwen && mark == 0 {
        // Its functions are those behind the other mark.
        let inner = if rules.has("behind1") { "behind1".to_owned() } else { calls(rules, dialect, 1, tools) };
        rules.add(&rule, &format!("\"\\n<function=\" {inner}"));
        return rule;
    }
    if rules.has(&rule) {
        return rule;
    }
    let name_end = if qwen { ">\n" } else { "\">" };
    let end = rules.said(if qwen { "</function>\n</tool_call>" } else { "</function>" });
    let mut each = Vec::new();
    for (t, tool) in tools.iter().enumerate() {
        let mut call = quoted(&format!("{}{name_end}", tool.name));
        let required: Vec<&str> = tool.parameters["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (p, (key, schema)) in tool.parameters["properties"].as_object().into_iter().flatten().enumerate() {
            let parameter = format!("p{t}x{p}");
            let open = rules.said(&if qwen { format!("<parameter={key}>\n") } else { format!("<param name=\"{key}\">") });
            let value = value(rules, &format!("V{t}X{p}"), qwen, schema, &tool.parameters);
            rules.add(&parameter, &format!("{open} {value}"));
            let maybe = if required.contains(&key.as_str()) { "" } else { "?" };
            call += &format!(" {parameter}{maybe}");
        }
        each.push(format!("{call} {end}"));
    }
    rules.add(&rule, &each.join(" | "));
    rule
}

/// A value with its closing tag.
fn value(rules: &mut Rules, name: &str, qwen: bool, schema: &Value, root: &Value) -> String {
    let end = if qwen { "\n</parameter>\n" } else { "</param>" };
    let kinds = Kinds::read(schema, root);
    let schema = resolved(schema, root);
    let bare = |text: &str| if qwen || !text.contains(['<', '&', '\n']) { quoted(text) } else { quoted(&format!("<![CDATA[{text}]]>")) };
    if let Some(each) = literals(schema, bare) {
        return format!("({}) {}", each.join(" | "), rules.said(end));
    }
    if !kinds.text() && kinds != Kinds::default() {
        return format!("{} {}", json_of(&with_definitions(schema, root)), rules.said(end));
    }
    let length = length_of(schema);
    if qwen {
        return rules.until(name, &length, &["</parameter>"], end);
    }
    let plain = rules.until(name, &format!("{length} & /[^<&\\n]*/"), &["</param>"], end);
    let section = rules.until(&format!("{name}C"), &length, &["]]>"], "]]></param>");
    format!("({plain} | \"<![CDATA[\" {section})")
}

/// The schema that a `$ref` leads to.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..8 {
        match schema["$ref"].as_str().and_then(|path| lookup(path, root)) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

/// A part of a schema that stands for itself: with the definitions that its `$ref`s lead to.
pub(super) fn with_definitions(schema: &Value, root: &Value) -> Value {
    let mut schema = if schema.is_object() { schema.clone() } else { json!({}) };
    if let Some(schema) = schema.as_object_mut() {
        for key in ["$defs", "definitions"] {
            if let Some(definitions) = root.get(key) {
                schema.entry(key).or_insert_with(|| definitions.clone());
            }
        }
    }
    schema
}
