//! Values as Python prints them: templates are written for Jinja under Python, and models were trained on its output.

use super::jinja::{Tuple, is_view, spent};
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::fmt::Write;
use std::ops::Range;

/// What a value takes that is no text.
const REPR_BYTES: usize = 64;

/// `str(value)`.
pub(super) fn str(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            if spent::bytes(text.len()) { text.to_owned() } else { String::new() }
        }
        _ => {
            let mut out = String::new();
            repr(value, &mut out);
            out
        }
    }
}

/// `repr(value)`. One list may be in others many times over: each time is charged.
fn repr(value: &Value, out: &mut String) {
    if !spent::bytes(REPR_BYTES + value.as_str().map_or(0, str::len)) {
        return;
    }
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => number(value, out),
        ValueKind::String => repr_str(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq if value.downcast_object_ref::<Tuple>().is_some() => {
            let close = if value.len() == Some(1) { ",)" } else { ")" };
            list(items(value), ["(", ", ", close], out, repr);
        }
        ValueKind::Iterable if is_view(value) => out.push_str(&value.to_string()),
        ValueKind::Seq | ValueKind::Iterable => list(items(value), ["[", ", ", "]"], out, repr),
        ValueKind::Map => {
            let pairs = items(value).map(|k| (value.get_item(&k).unwrap_or_default(), k));
            list(pairs, ["{", ", ", "}"], out, |(v, k), out| {
                repr(k, out);
                out.push_str(": ");
                repr(v, out);
            });
        }
        _ => out.push_str(&value.to_string()),
    }
}

/// `c.isspace()`.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// `text.splitlines()`: each line's bytes, and where the next begins.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (Range<usize>, usize)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let ends = |c: char| matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}');
        let (len, end) = match rest.char_indices().find(|(_, c)| ends(*c)) {
            Some((i, '\r')) if rest[i + 1..].starts_with('\n') => (i, i + 2),
            Some((i, c)) => (i, i + c.len_utf8()),
            None => (rest.len(), rest.len()),
        };
        at = start + end;
        Some((start..start + len, at))
    })
}

/// `text.title()`.
pub(super) fn title(text: &str) -> String {
    let mut inside = false;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase())
        } else {
            out.push_str(&title_case(c))
        }
        inside = c.is_lowercase() || c.is_uppercase();
    }
    out
}

/// `text.capitalize()`.
pub(super) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(title_case).unwrap_or_default() + &chars.as_str().to_lowercase()
}

/// Upper case at the head of a word: `Ss` of `ß`. (The four letters that have a third case, as `ǅ`, are not told apart.)
fn title_case(c: char) -> String {
    let mut upper = c.to_uppercase();
    upper.next().into_iter().chain(upper.flat_map(char::to_lowercase)).collect()
}

/// `zfill`, `ljust`, `rjust` and `center`.
pub(super) fn justify(text: &str, how: &str, width: usize, fill: Option<&str>) -> String {
    let missing = width.saturating_sub(text.chars().count());
    let fill = fill.unwrap_or(" ");
    if !spent::bytes(missing.saturating_mul(fill.len()).saturating_add(text.len())) {
        return String::new();
    }
    match how {
        "zfill" => {
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            let sign = &text[..text.len() - digits.len()];
            format!("{sign}{}{digits}", "0".repeat(missing))
        }
        "ljust" => format!("{text}{}", fill.repeat(missing)),
        "rjust" => format!("{}{text}", fill.repeat(missing)),
        _ => {
            // Python puts the odd one in front when the width is odd, too.
            let left = missing / 2 + (missing & width & 1);
            format!("{}{text}{}", fill.repeat(left), fill.repeat(missing - left))
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = Value> {
    value.try_iter().into_iter().flatten()
}

fn list<T>(items: impl Iterator<Item = T>, [open, between, close]: [&str; 3], out: &mut String, mut one: impl FnMut(&T, &mut String)) {
    out.push_str(open);
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push_str(between);
        }
        one(&item, out);
    }
    out.push_str(close);
}

/// Integers as they are; floats as the shortest text that reads back, with Python's exponents (`1e-05`, `1e+16`).
fn number(value: &Value, out: &mut String) {
    let float = f64::try_from(value.clone()).ok();
    let Some(float) = float.filter(|_| !value.is_integer()) else {
        out.push_str(&value.to_string());
        return;
    };
    let text = format!("{float:?}").to_lowercase();
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(d) => ('-', d),
                None => ('+', exponent),
            };
            out.push_str(&format!("{mantissa}e{sign}{digits:0>2}"));
        }
        None => out.push_str(&text),
    }
}

fn repr_str(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if printable(c) => out.push(c),
            c => {
                let n = u32::from(c);
                out.push_str(&match n {
                    0..0x100 => format!("\\x{n:02x}"),
                    0x100..0x1_0000 => format!("\\u{n:04x}"),
                    _ => format!("\\U{n:08x}"),
                });
            }
        }
    }
    out.push(quote);
}

/// Python's `isprintable`, for the characters that occur: separators and format characters are not.
fn printable(c: char) -> bool {
    let format = matches!(c, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
        | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E000}'..='\u{F8FF}' | '\u{E0000}'..='\u{E007F}' | '\u{F0000}'..='\u{10FFFF}');
    c == ' ' || !(c.is_control() || c.is_whitespace() || format)
}

/// The layout of `json.dumps`.
#[derive(Debug, Clone)]
pub(super) struct Json {
    pub(super) ensure_ascii: bool,
    /// One level of indentation; None for everything on one line.
    pub(super) indent: Option<String>,
    pub(super) item: String,
    pub(super) key: String,
    pub(super) sort_keys: bool,
}

impl Json {
    /// `json.dumps(value, …)`. Fails on what JSON cannot hold: undefined values, functions.
    pub(super) fn dumps(&self, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.write(value, 0, &mut out)?;
        Ok(out)
    }

    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        let indent = self.indent.as_ref().map_or(0, |indent| indent.len().saturating_mul(depth + 1));
        spent::bytes(indent.saturating_add(REPR_BYTES + self.item.len() + self.key.len() + value.as_str().map_or(0, str::len)));
        spent::check()?;
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => json_number(value, out),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq => {
                let list: Vec<Value> = items(value).collect();
                self.nest(list.len(), ['[', ']'], depth, out, |i, out| self.write(&list[i], depth + 1, out))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = items(value).collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.nest(keys.len(), ['{', '}'], depth, out, |i, out| {
                    self.string(&json_key(&keys[i]), out);
                    out.push_str(&self.key);
                    self.write(&value.get_item(&keys[i])?, depth + 1, out)
                })?;
            }
            kind => {
                let text = format!("tojson: {kind} is not JSON serializable");
                return Err(Error::new(ErrorKind::InvalidOperation, text));
            }
        }
        Ok(())
    }

    fn nest(
        &self,
        len: usize,
        [open, close]: [char; 2],
        depth: usize,
        out: &mut String,
        mut one: impl FnMut(usize, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for i in 0..len {
            if i > 0 {
                out.push_str(&self.item);
            }
            self.new_line(depth + 1, out);
            one(i, out)?;
        }
        if len > 0 {
            self.new_line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && !(' '..='~').contains(&c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        // Writing to a String cannot fail.
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn json_number(value: &Value, out: &mut String) {
    let mut text = String::new();
    number(value, &mut text);
    out.push_str(match text.as_str() {
        "nan" => "NaN",
        "inf" => "Infinity",
        "-inf" => "-Infinity",
        text => text,
    });
}

/// Keys that are no strings become what their JSON would be.
fn json_key(key: &Value) -> String {
    match key.kind() {
        ValueKind::None => "null".into(),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.into(),
        _ => str(key),
    }
}
