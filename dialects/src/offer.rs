//! What a client offers to be called, and what its schemas say of one argument.

use std::collections::BTreeMap;
use std::ops::Bound;

use serde_json::Value;

/// A tool that a client offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    pub name: String,
    pub description: Option<String>,
    /// JSON Schema of the arguments, an object's.
    pub parameters: Value,
    /// The client insists that arguments obey the schema.
    pub strict: bool,
}

/// Which tools an answer may or must call.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Choice {
    None,
    #[default]
    Auto,
    Required,
    Named(String),
}

/// The JSON types that a schema allows, a bit each. None known means that anything goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Kinds(u8);

impl Kinds {
    const STRING: Kinds = Kinds(1);
    /// How far `$ref`s are followed.
    const DEPTH: u8 = 8;

    /// A string and nothing else: whatever is written is the value.
    pub(crate) fn only_text(self) -> bool {
        self == Kinds::STRING
    }

    pub(crate) fn text(self) -> bool {
        self.0 & Kinds::STRING.0 != 0
    }

    fn allows(self, value: &Value) -> bool {
        self.0 == 0 || self.0 & Kinds::of(value).0 != 0
    }

    fn of(value: &Value) -> Kinds {
        Kinds(match value {
            Value::String(_) => 1,
            Value::Null => 2,
            Value::Bool(_) => 4,
            Value::Number(_) => 8,
            Value::Array(_) => 16,
            Value::Object(_) => 32,
        })
    }

    fn named(name: &str) -> Kinds {
        Kinds(match name {
            "string" => 1,
            "null" => 2,
            "boolean" => 4,
            "number" | "integer" => 8,
            "array" => 16,
            "object" => 32,
            _ => 0,
        })
    }

    /// What `schema` allows; `root` is where its `$ref`s lead.
    pub(crate) fn read(schema: &Value, root: &Value) -> Kinds {
        Kinds::at(schema, root, Kinds::DEPTH)
    }

    fn at(schema: &Value, root: &Value, depth: u8) -> Kinds {
        let any_of = |schemas: &[Value]| {
            let kinds: Vec<Kinds> = schemas.iter().map(|s| Kinds::at(s, root, depth - 1)).collect();
            if kinds.contains(&Kinds(0)) { Kinds(0) } else { Kinds(kinds.iter().fold(0, |all, k| all | k.0)) }
        };
        if depth == 0 {
            return Kinds(0);
        }
        match &schema["type"] {
            Value::String(name) => return Kinds::named(name),
            Value::Array(names) => return Kinds(names.iter().filter_map(Value::as_str).fold(0, |all, n| all | Kinds::named(n).0)),
            _ => {}
        }
        if let Some(values) = schema["enum"].as_array() {
            return Kinds(values.iter().fold(0, |all, v| all | Kinds::of(v).0));
        }
        if let Some(value) = schema.get("const") {
            return Kinds::of(value);
        }
        if let Some(schemas) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            return any_of(schemas);
        }
        if let Some(schemas) = schema["allOf"].as_array() {
            return schemas.iter().map(|s| Kinds::at(s, root, depth - 1)).find(|k| k.0 != 0).unwrap_or_default();
        }
        schema["$ref"].as_str().and_then(|path| lookup(path, root)).map_or(Kinds(0), |s| Kinds::at(s, root, depth - 1))
    }
}

/// Where a local `$ref` leads.
pub(crate) fn lookup<'a>(path: &str, root: &'a Value) -> Option<&'a Value> {
    path.strip_prefix('#').and_then(|pointer| root.pointer(pointer))
}

/// The value that a bare word of an answer stands for, where the argument's schema allows `kinds`, as JSON text.
pub(crate) fn value_of(word: &str, kinds: Kinds) -> String {
    if !kinds.only_text() {
        let trimmed = word.trim();
        let parsed = match trimmed {
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            "None" => Some(Value::Null),
            _ => serde_json::from_str(trimmed).ok(),
        };
        // A string in quotes is that string where only other types are known; where strings are allowed, the quotes are part of it.
        if let Some(value) = parsed.filter(|v| if v.is_string() { !kinds.text() } else { kinds.allows(v) }) {
            return if ["True", "False", "None"].contains(&trimmed) { value.to_string() } else { trimmed.to_owned() };
        }
    }
    quoted(word)
}

/// `text` as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The tools of a request, ready to be asked about names and arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offers(BTreeMap<String, BTreeMap<String, Kinds>>);

impl Offers {
    pub(crate) fn new(tools: &[Tool]) -> Offers {
        let kinds = |tool: &Tool| {
            let properties = tool.parameters["properties"].as_object().into_iter().flatten();
            properties.map(|(key, schema)| (key.clone(), Kinds::read(schema, &tool.parameters))).collect()
        };
        Offers(tools.iter().map(|tool| (tool.name.clone(), kinds(tool))).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether a name that begins so can still be one of a tool.
    pub(crate) fn begins(&self, start: &str) -> bool {
        self.0.range::<str, _>((Bound::Included(start), Bound::Unbounded)).next().is_some_and(|(name, _)| name.starts_with(start))
    }

    pub(crate) fn kinds(&self, name: &str, key: &str) -> Kinds {
        self.0.get(name).and_then(|keys| keys.get(key)).copied().unwrap_or_default()
    }
}
