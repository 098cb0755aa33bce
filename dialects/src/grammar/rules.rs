//! The text of a grammar, and the few shapes that all families need.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::offer::quoted;

/// Rules as they are written, and which marks are tokens.
#[derive(Debug)]
pub(super) struct Rules {
    text: String,
    tokens: Vec<(&'static str, u32)>,
}

impl Rules {
    pub(super) fn new(tokens: Vec<(&'static str, u32)>) -> Rules {
        Rules { text: "%llguidance {}\n".to_owned(), tokens }
    }

    pub(super) fn add(&mut self, name: &str, body: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{name}: {body}");
    }

    /// Whether a rule of that name is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.text.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Whether `text` begins with a token.
    pub(super) fn is_token(&self, text: &str) -> bool {
        self.tokens.iter().any(|(mark, _)| text.starts_with(mark))
    }

    /// A text that is written so: its marks as tokens where they are, the rest spelled.
    pub(super) fn said(&self, text: &str) -> String {
        let first = self.tokens.iter().filter_map(|(mark, id)| Some((text.find(mark)?, mark.len(), id))).min_by_key(|(at, len, _)| (*at, usize::MAX - len));
        match first {
            None if text.is_empty() => String::new(),
            None => quoted(text),
            Some((at, len, id)) => [self.said(&text[..at]), format!("<[{id}]>"), self.said(&text[at + len..])].join(" ").trim().to_owned(),
        }
    }

    /// Text of the form `body`, in which none of `without` occurs, and then `end`. `name` is a terminal's, in capitals. What to write for it.
    pub(super) fn until(&mut self, name: &str, body: &str, without: &[&str], end: &str) -> String {
        if self.is_token(end) {
            self.add(name, &lacking(body, without));
            return format!("{name} {}", self.said(end));
        }
        // Only what comes before a token belongs to the lexeme.
        let cut = self.tokens.iter().filter_map(|(mark, _)| end.find(mark)).min().unwrap_or(end.len());
        let rule = name.to_lowercase();
        self.add(name, &format!("({}) {}", lacking(body, without), quoted(&end[..cut])));
        self.add(&format!("{rule}[lazy]"), name);
        format!("{rule} {}", self.said(&end[cut..]))
    }
}

/// A terminal of the form `body` in which none of `without` occurs.
pub(super) fn lacking(body: &str, without: &[&str]) -> String {
    let any: Vec<String> = without.iter().map(|text| escaped(text)).collect();
    format!("{body} & ~/(?s:.*)({})(?s:.*)/", any.join("|"))
}

/// A text within a regular expression.
pub(super) fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // It would end the expression.
            '/' => all.push_str("\\x2f"),
            '\n' => all.push_str("\\n"),
            '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => all.extend(['\\', c]),
            _ => all.push(c),
        }
    }
    all
}

/// `schema` as a nonterminal. It keeps JSON's usual separators and adds no other white space, in which a model could lose itself.
pub(super) fn json_of(schema: &Value) -> String {
    let mut schema = if schema.is_object() { schema.clone() } else { json!({}) };
    if let Some(schema) = schema.as_object_mut() {
        schema.entry("x-guidance").or_insert_with(|| json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "}));
    }
    format!("%json {schema}")
}

/// The schema of a tool's arguments: an object's, whatever the client left out.
pub(super) fn arguments_of(parameters: &Value) -> Value {
    let mut schema = if parameters.is_object() { parameters.clone() } else { json!({}) };
    if let Some(schema) = schema.as_object_mut() {
        schema.entry("type").or_insert_with(|| json!("object"));
    }
    schema
}
