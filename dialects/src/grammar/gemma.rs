//! Gemma 4's calls: a schema's values in its own notation.

use std::collections::BTreeMap;

use serde_json::Value;

use super::calls::{length_of, literals};
use super::rules::{Rules, arguments_of, json_of};
use super::xml::with_definitions;
use crate::offer::{Kinds, Tool, lookup, quoted};

const QUOTE: &str = "<|\"|>";

/// The rule `behind`: what follows `<|tool_call>`.
pub(super) fn calls(rules: &mut Rules, tools: &[&Tool]) {
    let mut each = Vec::new();
    for (t, tool) in tools.iter().enumerate() {
        let root = arguments_of(&tool.parameters);
        let mut shapes = Shapes { rules, root: &root, prefix: format!("g{t}"), count: 0, known: BTreeMap::new() };
        let arguments = shapes.object(&root);
        let head = quoted(&format!("call:{}", tool.name));
        each.push(format!("{head} {arguments} {}", rules.said("<tool_call|>")));
    }
    rules.add("behind", &each.join(" | "));
    anything(rules);
}

/// The rule `anything`: a value of which no schema says more.
fn anything(rules: &mut Rules) {
    let quote = rules.said(QUOTE);
    let text = rules.until("ANYTEXT", "/(?s:.*)/", &[QUOTE], QUOTE);
    let word = json_of(&serde_json::json!({"type": ["number", "boolean", "null"]}));
    rules.add("KEY", "/[A-Za-z_][A-Za-z0-9_.-]{0,63}/");
    rules.add("anything", &format!("{quote} {text} | {word} | anyarray | anyobject"));
    rules.add("anyarray", "\"[\" (anything (\",\" anything)*)? \"]\"");
    rules.add("anyobject", "\"{\" (KEY \":\" anything (\",\" KEY \":\" anything)*)? \"}\"");
}

/// The rules of one tool's arguments.
struct Shapes<'a> {
    rules: &'a mut Rules,
    root: &'a Value,
    prefix: String,
    count: usize,
    /// The rule of a `$ref` that was met, so that a schema may refer to itself.
    known: BTreeMap<String, String>,
}

impl Shapes<'_> {
    fn name(&mut self) -> String {
        self.count += 1;
        format!("{}x{}", self.prefix, self.count)
    }

    /// What to write for a value of that schema.
    fn value(&mut self, schema: &Value) -> String {
        if let Some(path) = schema["$ref"].as_str() {
            return self.referred(path);
        }
        let quote = self.rules.said(QUOTE);
        if let Some(each) = literals(schema, |text| format!("{quote} {} {quote}", if text.is_empty() { String::new() } else { quoted(text) })) {
            return format!("({})", each.join(" | "));
        }
        if let Some(schemas) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            let each: Vec<String> = schemas.iter().map(|s| self.value(s)).collect();
            return format!("({})", each.join(" | "));
        }
        if let Some([only]) = schema["allOf"].as_array().map(Vec::as_slice) {
            return self.value(only);
        }
        if let Some(types) = schema["type"].as_array() {
            let each = types.iter().map(|one| {
                let mut schema = schema.clone();
                schema["type"] = one.clone();
                self.value(&schema)
            });
            return format!("({})", each.collect::<Vec<_>>().join(" | "));
        }
        match schema["type"].as_str() {
            Some("string") => self.text(schema),
            Some("array") => self.array(schema),
            Some("object") if schema["properties"].is_object() => self.object(schema),
            Some("object") => "anyobject".to_owned(),
            Some(_) => json_of(&with_definitions(schema, self.root)),
            None if Kinds::read(schema, self.root) == Kinds::default() => "anything".to_owned(),
            None => json_of(&with_definitions(schema, self.root)),
        }
    }

    fn referred(&mut self, path: &str) -> String {
        if let Some(rule) = self.known.get(path) {
            return rule.clone();
        }
        let Some(schema) = lookup(path, self.root) else { return "anything".to_owned() };
        let rule = self.name();
        self.known.insert(path.to_owned(), rule.clone());
        let value = self.value(&schema.clone());
        self.rules.add(&rule, &value);
        rule
    }

    fn text(&mut self, schema: &Value) -> String {
        let terminal = self.name().to_uppercase();
        let quote = self.rules.said(QUOTE);
        let rest = self.rules.until(&terminal, &length_of(schema), &[QUOTE], QUOTE);
        format!("{quote} {rest}")
    }

    fn array(&mut self, schema: &Value) -> String {
        let item = schema.get("items").filter(|items| items.is_object()).map_or_else(|| "anything".to_owned(), |items| self.value(items));
        let rule = self.name();
        self.rules.add(&rule, &item);
        let (min, max) = (schema["minItems"].as_u64().unwrap_or(0), schema["maxItems"].as_u64());
        let more = format!("(\",\" {rule}){{{},{}}}", min.saturating_sub(1), max.map_or_else(String::new, |m| m.saturating_sub(1).to_string()));
        match (min, max) {
            (_, Some(0)) => "\"[\" \"]\"".to_owned(),
            (0, _) => format!("\"[\" ({rule} {more})? \"]\""),
            _ => format!("\"[\" {rule} {more} \"]\""),
        }
    }

    /// An object with the properties that it names, in their order; those not required may be left out.
    fn object(&mut self, schema: &Value) -> String {
        let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        // From the last to the first: what may follow when none has been written yet, and when one has.
        let (mut first, mut later) = (String::new(), String::new());
        for (key, property) in schema["properties"].as_object().into_iter().flatten().rev() {
            let value = self.value(property);
            let rule = self.name();
            let key_said = self.key(key);
            self.rules.add(&rule, &format!("{key_said} \":\" {value}"));
            let (begins, goes_on) = (format!("{rule} {later}"), format!("\",\" {rule} {later}"));
            let must = required.contains(&key.as_str());
            (first, later) = (self.rule(&begins, (!must).then_some(&first)), self.rule(&goes_on, (!must).then_some(&later)));
        }
        format!("\"{{\" {first} \"}}\"")
    }

    /// A rule for one way or the other, which may be nothing.
    fn rule(&mut self, way: &str, other: Option<&String>) -> String {
        let rule = self.name();
        match other {
            None => self.rules.add(&rule, way),
            Some(other) if other.is_empty() => self.rules.add(&rule, &format!("({way})?")),
            Some(other) => self.rules.add(&rule, &format!("{way} | {other}")),
        }
        rule
    }

    fn key(&self, key: &str) -> String {
        let simple = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if simple { quoted(key) } else { self.rules.said(&format!("{QUOTE}{key}{QUOTE}")) }
    }
}
