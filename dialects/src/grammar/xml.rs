//! Calls in tags: Qwen3-Coder's, MiniCPM's and GLM's.

use serde_json::{Value, json};

use super::calls::{length_of, literals};
use super::rules::{Rules, json_of};
use crate::dialect::Dialect;
use crate::offer::{Kinds, Tool, lookup, quoted};

/// What stands around names and values, as the templates write it.
struct Form {
    name_end: &'static str,
    parameter: (&'static str, &'static str),
    value_end: &'static str,
    end: &'static str,
    /// GLM's versions differ in line breaks: they may stand behind the name and around values.
    loose: bool,
}

fn form(dialect: Dialect) -> Form {
    match dialect {
        Dialect::MiniCpm => Form { name_end: "\">", parameter: ("<param name=\"", "\">"), value_end: "</param>", end: "</function>", loose: false },
        Dialect::Glm => Form { name_end: "", parameter: ("<arg_key>", "</arg_key>"), value_end: "</arg_value>", end: "</tool_call>", loose: true },
        _ => Form { name_end: ">\n", parameter: ("<parameter=", ">\n"), value_end: "\n</parameter>\n", end: "</function>\n</tool_call>", loose: false },
    }
}

/// What follows the opening mark of that number: the rule's name.
pub(super) fn calls(rules: &mut Rules, dialect: Dialect, mark: usize, tools: &[&Tool]) -> String {
    let rule = format!("behind{mark}");
    if rules.has(&rule) {
        return rule;
    }
    if dialect == Dialect::QwenCoder && mark == 0 {
        // Its functions are those behind the other mark.
        let inner = calls(rules, dialect, 1, tools);
        rules.add(&rule, &format!("\"\\n<function=\" {inner}"));
        return rule;
    }
    let form = form(dialect);
    let line = if form.loose { "\"\\n\"?" } else { "" };
    let mut each = Vec::new();
    for (t, tool) in tools.iter().enumerate() {
        let mut call = format!("{} {line}", quoted(&format!("{}{}", tool.name, form.name_end)));
        let required: Vec<&str> = tool.parameters["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (p, (key, schema)) in tool.parameters["properties"].as_object().into_iter().flatten().enumerate() {
            let parameter = format!("p{t}x{p}");
            let open = rules.said(&format!("{}{key}{}", form.parameter.0, form.parameter.1));
            let opens_value = if form.loose { format!("{line} {}", rules.said("<arg_value>")) } else { String::new() };
            let value = value(rules, &format!("V{t}X{p}"), dialect, schema, &tool.parameters);
            rules.add(&parameter, &format!("{open} {opens_value} {value} {line}"));
            let maybe = if required.contains(&key.as_str()) { "" } else { "?" };
            call += &format!(" {parameter}{maybe}");
        }
        each.push(format!("{call} {}", rules.said(form.end)));
    }
    rules.add(&rule, &each.join(" | "));
    rule
}

/// A value with its closing tag.
fn value(rules: &mut Rules, name: &str, dialect: Dialect, schema: &Value, root: &Value) -> String {
    let sections = dialect == Dialect::MiniCpm;
    let end = form(dialect).value_end;
    let kinds = Kinds::read(schema, root);
    let schema = resolved(schema, root);
    let bare = |text: &str| match text {
        "" => String::new(),
        _ if sections && text.contains(['<', '&', '\n']) => quoted(&format!("<![CDATA[{text}]]>")),
        _ => quoted(text),
    };
    if let Some(each) = literals(schema, bare) {
        return format!("({}) {}", each.join(" | "), rules.said(end));
    }
    if !kinds.text() && kinds != Kinds::default() {
        return format!("{} {}", json_of(&with_definitions(schema, root)), rules.said(end));
    }
    let length = length_of(schema);
    if !sections {
        return rules.until(name, &length, &[end.trim()], end);
    }
    let plain = rules.until(name, &format!("{length} & /[^<&\\n]*/"), &[end], end);
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
