//! What the tests share: a few tools, and an answer read in portions.

mod detect;
mod families;
mod grammar;
mod split;

use crate::{Dialect, Piece, Reader, Reasoning, Tool};
use serde_json::{Value, json};

pub(crate) fn tool(name: &str, parameters: Value) -> Tool {
    Tool { name: name.to_owned(), description: None, parameters, strict: true }
}

/// Tools with arguments of every kind.
pub(crate) fn tools() -> Vec<Tool> {
    vec![
        tool("get_weather", json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]})),
        tool("get_time", json!({"type": "object", "properties": {}})),
        tool(
            "edit",
            json!({"type": "object", "properties": {
                "path": {"type": "string"}, "text": {"type": "string"}, "force": {"type": "boolean"}, "ratio": {"type": "number"},
                "tags": {"type": "array", "items": {"type": "string"}}, "at": {"$ref": "#/$defs/at"}, "mode": {"type": ["string", "null"]}
            }, "required": ["path", "text"], "$defs": {"at": {"type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"]}}}),
        ),
    ]
}

/// All pieces of an answer that comes in these portions; neighbours of a kind made one.
pub(crate) fn read<'a>(mut reader: Reader, portions: impl IntoIterator<Item = &'a str>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = portions.into_iter().flat_map(|p| reader.push(p)).collect();
    pieces.extend(reader.finish());
    joined(pieces)
}

pub(crate) fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut all: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (all.last_mut(), &piece) {
            (Some(Piece::Text(last)), Piece::Text(more)) | (Some(Piece::Reasoning(last)), Piece::Reasoning(more)) => last.push_str(more),
            (Some(Piece::Arguments { text, .. }), Piece::Arguments { text: more, .. }) => text.push_str(more),
            _ => all.push(piece),
        }
    }
    all
}

/// The pieces of an answer, which must be the same however it is cut.
pub(crate) fn pieces(dialect: Dialect, reasoning: Reasoning, begins: bool, answer: &str) -> Vec<Piece> {
    let reader = || Reader::new(dialect, reasoning, &tools(), begins);
    let at_once = read(reader(), [answer]);
    let by_char = read(reader(), answer.split_inclusive(|_: char| true));
    assert_eq!(by_char, at_once, "{answer:?}");
    at_once
}

/// Pieces in short: `~reasoning`, `"text`, `name(arguments)`, `name(arguments !raw`.
pub(crate) fn short(pieces: &[Piece]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut open = false;
    for piece in pieces {
        if open && !matches!(piece, Piece::Arguments { .. } | Piece::Broken { .. }) {
            all.last_mut().unwrap().push(')');
            open = false;
        }
        match piece {
            Piece::Reasoning(text) => all.push(format!("~{text}")),
            Piece::Text(text) => all.push(format!("\"{text}")),
            Piece::Call { name, .. } => {
                all.push(format!("{name}("));
                open = true;
            }
            Piece::Arguments { text, .. } => all.last_mut().unwrap().push_str(text),
            Piece::Broken { raw, .. } => {
                all.last_mut().unwrap().push_str(&format!(" !{raw}"));
                open = false;
            }
        }
    }
    if open {
        all.last_mut().unwrap().push(')');
    }
    all
}
