//! What a client's schema may ask of the compiler: it goes down into references without looking how deep they are, and the intersection of
//! regular expressions can take for ever.

use serde_json::Value;

/// JSON objects of a schema: no chain of references is longer.
const OBJECTS_MAX: usize = 10_000;
/// Steps of the search for patterns that meet.
const STEPS_MAX: u32 = 200_000;
/// References that are followed one after another in that search.
const REFERENCES_MAX: u32 = 32;

/// # Errors
/// What the schema has too much of.
pub fn check(schema: &Value) -> Result<(), String> {
    let mut nodes = vec![schema];
    let mut objects = 0;
    let mut search = Search { root: schema, steps: 0 };
    while let Some(node) = nodes.pop() {
        match node {
            Value::Array(list) => nodes.extend(list),
            Value::Object(fields) => {
                objects += 1;
                if objects > OBJECTS_MAX {
                    return Err(format!("the schema has more than {OBJECTS_MAX} objects"));
                }
                nodes.extend(fields.values());
                if node.get("allOf").is_some() && search.patterns(node, 0)? > 1 {
                    return Err("allOf brings several patterns together for one string: one pattern may be given".into());
                }
            }
            _ => {}
        }
    }
    Ok(())
}

struct Search<'a> {
    root: &'a Value,
    steps: u32,
}

impl Search<'_> {
    /// Patterns that a string must match all at once.
    fn patterns(&mut self, node: &Value, references: u32) -> Result<u32, String> {
        self.steps += 1;
        if self.steps > STEPS_MAX || references > REFERENCES_MAX {
            return Err("the schema's allOf and $ref are too much entangled".into());
        }
        let mut count = u32::from(node.get("pattern").is_some_and(Value::is_string));
        let of = |name: &str| node.get(name).and_then(Value::as_array).into_iter().flatten();
        for part in of("allOf") {
            count += self.patterns(part, references)?;
        }
        for choice in ["anyOf", "oneOf"] {
            let mut most = 0;
            for option in of(choice) {
                most = most.max(self.patterns(option, references)?);
            }
            count += most;
        }
        if let Some(target) = node.get("$ref").and_then(Value::as_str).and_then(|to| self.root.pointer(to.strip_prefix('#')?)) {
            count += self.patterns(&target.clone(), references + 1)?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_too_much() {
        let chain = |n: u32| json!({"$ref": "#/$defs/d0", "$defs": (0..n).map(|i| (format!("d{i}"), json!({"$ref": format!("#/$defs/d{}", i + 1)}))).collect::<serde_json::Map<_, _>>()});
        let p = |of: &str| json!({"type": "string", "pattern": of});
        let rows = [
            (json!({"allOf": [p("a"), {"minLength": 2}]}), true),
            (json!({"properties": {"a": p("a"), "b": p("b")}, "allOf": [{"required": ["a"]}, {"required": ["b"]}]}), true),
            (json!({"anyOf": [p("a"), p("b")], "allOf": [{"type": "string"}]}), true),
            (json!({"allOf": [p("a"), p("b")]}), false),
            (json!({"pattern": "a", "allOf": [p("b")]}), false),
            (json!({"items": {"allOf": [{"$ref": "#/$defs/a"}, {"anyOf": [p("b"), {"type": "null"}]}]}, "$defs": {"a": p("a")}}), false),
            (json!({"allOf": [{"$ref": "#"}]}), false),
            (chain(20_000), false),
            (json!({"enum": (0..50_000).collect::<Vec<u32>>()}), true),
        ];
        for (schema, fine) in rows {
            assert_eq!(check(&schema).is_ok(), fine, "{:.200}", schema.to_string());
        }
    }
}
