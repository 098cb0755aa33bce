//! Renders chat templates: a JSON object a line on standard input, one on standard output. `tests/templates` compares them.
//!
//! In: `template` (its source), `specials`, `messages`, `kwargs`, `now` (Unix seconds). Out: `text`, or `error`.

use models::text::ChatTemplates;
use serde_json::{Map, Value, json};
use std::error::Error;
use std::io::{BufRead, Write};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let answer = match one(&serde_json::from_str(&line?)?) {
            Ok(text) => json!({ "text": text }),
            Err(error) => json!({ "error": error }),
        };
        writeln!(out, "{answer}")?;
    }
    Ok(out.flush()?)
}

fn one(case: &Value) -> Result<String, String> {
    let map = |name: &str| case[name].as_object().cloned().unwrap_or_else(Map::new);
    let source = case["template"].as_str().unwrap_or_default();
    let mut templates = ChatTemplates::new(vec![("default".into(), source.into())], map("specials"))?;
    if let Some(seconds) = case["now"].as_i64() {
        templates.stop_clock(seconds);
    }
    let messages = case["messages"].as_array().cloned().unwrap_or_default();
    templates.render(&messages, &map("kwargs")).map_err(|e| e.to_string())
}
