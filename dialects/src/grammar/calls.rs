//! Calls among text, and the families whose arguments are JSON.

use super::gemma;
use super::rules::{Rules, arguments_of, json_of, lacking};
use super::xml;
use crate::dialect::Dialect;
use crate::offer::{Tool, quoted};

/// Free text with calls in it. `rethinks`: reasoning may open behind text, with a mark that is a token.
pub(super) fn auto(rules: &mut Rules, dialect: Dialect, tools: &[&Tool], parallel: bool, forbidden: &[&str], rethinks: bool) -> String {
    if dialect == Dialect::Llama3 {
        // Its calls have no mark: they begin the answer, and an answer that does not begin with a brace holds none.
        let others: Vec<&str> = forbidden.iter().copied().filter(|mark| *mark != "{").collect();
        rules.add("TEXT", &lacking(r"/\s*([^{\s](?s:.*))?/", &others));
        let calls = required(rules, dialect, tools, parallel);
        return format!("(TEXT | {calls})");
    }
    let mut heads = Vec::new();
    for (i, open) in dialect.opens().iter().enumerate() {
        let rest = calls_behind(rules, dialect, i, tools, parallel);
        let head = rules.until(&format!("HEAD{i}"), "/(?s:.*)/", forbidden, open);
        heads.push(format!("{head} {rest}"));
    }
    rules.add("TEXT", &lacking("/(?s:.*)/", forbidden));
    rules.add("call", &heads.join(" | "));
    let again = if rethinks { "(TEXT rethink)?" } else { "" };
    if parallel { format!("({again} call)* {again} TEXT") } else { format!("({again} call | {again} TEXT)") }
}

/// Calls and nothing else.
pub(super) fn required(rules: &mut Rules, dialect: Dialect, tools: &[&Tool], parallel: bool) -> String {
    let open = dialect.opens()[0];
    if dialect == Dialect::Llama3 {
        objects(rules, "parameters", tools);
        let tag = rules.said(open);
        rules.add("calls", &format!("({tag})? object{}", if parallel { " (\"; \" object)*" } else { "" }));
        return "calls".to_owned();
    }
    let rest = calls_behind(rules, dialect, 0, tools, parallel);
    let one = format!("{} {rest}", rules.said(open));
    let between = match dialect {
        Dialect::Hermes | Dialect::QwenCoder | Dialect::MiniCpm => "\"\\n\"",
        Dialect::Glm => "\"\\n\"?",
        _ => "",
    };
    rules.add("required", &one);
    // Mistral's array holds them all.
    let array = dialect == Dialect::Mistral && !rules.is_token("[ARGS]");
    if parallel && !array { format!("required ({between} required)*") } else { "required".to_owned() }
}

/// What follows the opening mark of that number.
fn calls_behind(rules: &mut Rules, dialect: Dialect, mark: usize, tools: &[&Tool], parallel: bool) -> String {
    match dialect {
        Dialect::Mistral if rules.is_token("[ARGS]") => {
            let arguments = rules.said("[ARGS]");
            let each = tools.iter().map(|tool| format!("{} {arguments} {}", quoted(&tool.name), json_of(&arguments_of(&tool.parameters))));
            let each: Vec<String> = each.collect();
            rules.add("behind", &each.join(" | "));
        }
        Dialect::Mistral => {
            objects(rules, "arguments", tools);
            rules.add("behind", &format!("\"[\" object {} \"]\"", if parallel { "(\", \" object)*" } else { "" }));
        }
        Dialect::QwenCoder | Dialect::MiniCpm | Dialect::Glm => return xml::calls(rules, dialect, mark, tools),
        Dialect::Gemma4 => gemma::calls(rules, tools),
        Dialect::Plain | Dialect::Hermes | Dialect::Llama3 => {
            objects(rules, "arguments", tools);
            let end = rules.said("\n</tool_call>");
            rules.add("behind", &format!("\"\\n\" object {end}"));
        }
    }
    "behind".to_owned()
}

/// The rule `object`: a call as a JSON object.
fn objects(rules: &mut Rules, key: &str, tools: &[&Tool]) {
    let each = tools.iter().map(|tool| {
        let head = format!("{{\"name\": {}, \"{key}\": ", quoted(&tool.name));
        format!("{} {} \"}}\"", quoted(&head), json_of(&arguments_of(&tool.parameters)))
    });
    let each: Vec<String> = each.collect();
    rules.add("object", &each.join(" | "));
}

/// A string's characters, as many as its schema allows.
pub(super) fn length_of(schema: &serde_json::Value) -> String {
    let (min, max) = (schema["minLength"].as_u64(), schema["maxLength"].as_u64());
    match (min, max) {
        (None | Some(0), None) => "/(?s:.*)/".to_owned(),
        (min, max) => format!("/(?s:.{{{},{}}})/", min.unwrap_or(0), max.map_or_else(String::new, |m| m.to_string())),
    }
}

/// The literals that a schema allows, where it names them: as JSON, or strings bare.
pub(super) fn literals(schema: &serde_json::Value, text: impl Fn(&str) -> String) -> Option<Vec<String>> {
    let one = schema.get("const").map(std::slice::from_ref);
    let values = schema["enum"].as_array().map(Vec::as_slice).or(one)?;
    Some(values.iter().map(|value| value.as_str().map_or_else(|| quoted(&value.to_string()), &text)).collect())
}
