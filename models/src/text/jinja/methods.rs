//! Methods of Python's str, dict, list and tuple.

use super::ops::{Number, equal, number, type_error};
use super::spent;
use super::tuple::{Tuple, is_list, is_tuple};
use super::view::View;
use crate::text::python;
use minijinja::value::{Kwargs, Object, ObjectRepr, Value, ValueKind};
use minijinja::{Error, ErrorKind, FormatStyle, State, format_filter};
use std::fmt;
use std::sync::Arc;

const OF_TEXT: [&str; 47] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "maketrans",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];
const OF_MAP: [&str; 6] = ["copy", "fromkeys", "get", "items", "keys", "values"];
const OF_LIST: [&str; 3] = ["copy", "count", "index"];
/// Those that would change what they belong to. The sandbox hides them.
const HIDDEN: [&str; 13] = ["append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update", "add", "discard"];
const HIDDEN_OF_MAP: [&str; 5] = ["clear", "pop", "popitem", "setdefault", "update"];

/// Whether any of them has a method, or a hidden one, of that name.
pub(super) fn is_one(name: &str) -> bool {
    OF_TEXT.contains(&name) || OF_MAP.contains(&name) || OF_LIST.contains(&name) || HIDDEN.contains(&name)
}

pub(super) fn has(value: &Value, name: &str) -> bool {
    match value.kind() {
        ValueKind::String => OF_TEXT.contains(&name),
        ValueKind::Map => OF_MAP.contains(&name),
        ValueKind::Seq => OF_LIST.contains(&name) && (name != "copy" || is_list(value)),
        _ => false,
    }
}

pub(super) fn hides(value: &Value, name: &str) -> bool {
    match value.kind() {
        ValueKind::Map => HIDDEN_OF_MAP.contains(&name),
        ValueKind::Seq => HIDDEN.contains(&name) && is_list(value),
        _ => false,
    }
}

/// A method that was named and not called.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) value: Value,
    pub(super) name: String,
}

impl Object for Bound {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.value.call_method(state, &self.name, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<built-in method {}>", self.name)
    }
}

/// A call's arguments, by place or by name.
struct Arguments<'a> {
    list: &'a [Value],
    named: Kwargs,
}

impl<'a> Arguments<'a> {
    fn new(list: &'a [Value], max: usize) -> Result<Self, Error> {
        let (list, named) = match list.split_last() {
            Some((last, rest)) if last.is_kwargs() => (rest, Kwargs::try_from(last.clone())?),
            _ => (list, Kwargs::from_iter::<[(&str, Value); 0]>([])),
        };
        if list.len() > max {
            return Err(Error::from(ErrorKind::TooManyArguments));
        }
        Ok(Self { list, named })
    }

    /// None when it is not given, or is none.
    fn get(&self, at: usize, name: &str) -> Result<Option<Value>, Error> {
        let value = match self.list.get(at) {
            Some(value) => Some(value.clone()),
            None => self.named.get(name)?,
        };
        Ok(value.filter(|v: &Value| !v.is_none()))
    }

    fn text(&self, at: usize, name: &str) -> Result<Option<String>, Error> {
        let Some(value) = self.get(at, name)? else { return Ok(None) };
        value.as_str().map(|s| Some(s.to_owned())).ok_or_else(|| type_error(format!("{} is no text", value.kind())))
    }

    fn needed(&self, at: usize, name: &str) -> Result<String, Error> {
        self.text(at, name)?.ok_or_else(|| type_error(format!("{name} must be a text")))
    }

    fn int(&self, at: usize, name: &str) -> Result<Option<i128>, Error> {
        match self.get(at, name)? {
            None => Ok(None),
            Some(value) => match number(&value) {
                Some(Number::Int(n)) => Ok(Some(n)),
                _ => Err(type_error(format!("{name} must be an integer"))),
            },
        }
    }
}

/// What minijinja asks for a method that it has not: it has none of these.
pub(super) fn method(_: &State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if hides(value, name) {
        return Err(type_error(format!("{name} would change a {}", value.kind())));
    }
    let unknown = || Error::from(ErrorKind::UnknownMethod);
    if !has(value, name) {
        return Err(unknown());
    }
    // Most read or copy all of it.
    spent::bytes(value.as_str().map_or(0, str::len));
    spent::check()?;
    let called = match value.as_str() {
        Some(s) if name == "format" => Some(format(s, args)?),
        Some(s) => text(s, name, &Arguments::new(args, 3)?)?,
        None if value.kind() == ValueKind::Map => map(value, name, &Arguments::new(args, 2)?)?,
        None => list(value, name, &Arguments::new(args, 1)?)?,
    };
    called.ok_or_else(unknown)
}

/// A field may look into a list or a map; else it is written as Python writes it.
fn format(s: &str, args: &[Value]) -> Result<Value, Error> {
    let whole = |v: &Value| number(v).is_some() || v.is_kwargs() || (s.contains(['[', '.']) && v.as_object().is_some());
    let said: Vec<Value> = args.iter().map(|v| if whole(v) { v.clone() } else { python::str(v).into() }).collect();
    format_filter(FormatStyle::StrFormat, s, &said).map(Value::from)
}

fn map(value: &Value, name: &str, args: &Arguments<'_>) -> Result<Option<Value>, Error> {
    let Some(object) = value.as_object() else { return Ok(None) };
    Ok(Some(match name {
        "get" => {
            let key = args.list.first().ok_or_else(|| type_error("get needs a key".into()))?;
            if is_list(key) || key.kind() == ValueKind::Map {
                return Err(type_error(format!("{} is no key", key.kind())));
            }
            object.get_value(key).unwrap_or_else(|| args.list.get(1).cloned().unwrap_or_else(|| Value::from(())))
        }
        "items" => view("dict_items", &mut object.try_iter_pairs().into_iter().flatten().map(|(k, v)| Value::from_object(Tuple(vec![k, v])))),
        "keys" => view("dict_keys", &mut value.try_iter()?),
        "values" => view("dict_values", &mut object.try_iter_pairs().into_iter().flatten().map(|(_, v)| v)),
        "copy" => value.clone(),
        _ => return Ok(None),
    }))
}

fn view(name: &'static str, items: &mut dyn Iterator<Item = Value>) -> Value {
    Value::from_object(View { name, items: items.collect() })
}

fn list(value: &Value, name: &str, args: &Arguments<'_>) -> Result<Option<Value>, Error> {
    let wanted = args.list.first().cloned().unwrap_or_default();
    Ok(match name {
        "count" => Some(Value::from(value.try_iter()?.filter(|v| equal(v, &wanted)).count())),
        "index" => Some(value.try_iter()?.position(|v| equal(&v, &wanted)).map(Value::from).ok_or_else(|| type_error("it is not in the list".into()))?),
        "copy" if !is_tuple(value) => Some(value.clone()),
        _ => None,
    })
}

fn text(s: &str, name: &str, args: &Arguments<'_>) -> Result<Option<Value>, Error> {
    Ok(Some(match name {
        "strip" | "lstrip" | "rstrip" => {
            let chars = args.text(0, "chars")?;
            let ends = |c: char| chars.as_ref().map_or_else(|| python::is_space(c), |chars| chars.contains(c));
            let s = if name == "rstrip" { s } else { s.trim_start_matches(ends) };
            if name == "lstrip" { s } else { s.trim_end_matches(ends) }.into()
        }
        "split" | "rsplit" => {
            let max = args.int(1, "maxsplit")?.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
            split(s, args.text(0, "sep")?.as_deref(), max, name == "rsplit")?
        }
        "splitlines" => {
            let keep = args.get(0, "keepends")?.is_some_and(|v| v.is_true());
            python::lines(s).map(|(line, end)| Value::from(if keep { &s[line.start..end] } else { &s[line] })).collect()
        }
        "upper" => s.to_uppercase().into(),
        "lower" => s.to_lowercase().into(),
        "title" => python::title(s).into(),
        "capitalize" => python::capitalize(s).into(),
        "removeprefix" => s.strip_prefix(&*args.needed(0, "prefix")?).unwrap_or(s).into(),
        "removesuffix" => s.strip_suffix(&*args.needed(0, "suffix")?).unwrap_or(s).into(),
        "partition" | "rpartition" => {
            let sep = args.needed(0, "sep")?;
            let cut = if name == "partition" { s.split_once(&*sep) } else { s.rsplit_once(&*sep) };
            let parts = match cut {
                Some((a, b)) => [a, &sep, b],
                None if name == "partition" => [s, "", ""],
                None => ["", "", s],
            };
            Value::from_object(Tuple(parts.into_iter().map(Value::from).collect()))
        }
        "replace" => {
            let (old, new) = (args.needed(0, "old")?, args.needed(1, "new")?);
            match args.int(2, "count")?.and_then(|n| usize::try_from(n).ok()) {
                Some(n) => spent::replaced(s, &old, &new, n).into(),
                None => spent::replaced(s, &old, &new, usize::MAX).into(),
            }
        }
        "find" | "rfind" | "index" | "rindex" | "count" | "startswith" | "endswith" => return within(s, name, args).map(Some),
        "join" => {
            let items = args.get(0, "iterable")?.ok_or_else(|| type_error("join needs a list".into()))?;
            super::ops::iterable(&items)?;
            let mut parts = Vec::new();
            for item in items.try_iter()? {
                parts.push(item.as_str().ok_or_else(|| type_error(format!("join: {} is no text", item.kind())))?.to_owned());
            }
            spent::joined(&parts, s).into()
        }
        "isspace" => (!s.is_empty() && s.chars().all(python::is_space)).into(),
        "isalpha" => (!s.is_empty() && s.chars().all(char::is_alphabetic)).into(),
        "isascii" => s.is_ascii().into(),
        "isalnum" => (!s.is_empty() && s.chars().all(char::is_alphanumeric)).into(),
        "isdigit" | "isnumeric" | "isdecimal" => (!s.is_empty() && s.chars().all(char::is_numeric)).into(),
        "islower" => (s.chars().any(char::is_lowercase) && !s.chars().any(char::is_uppercase)).into(),
        "isupper" => (s.chars().any(char::is_uppercase) && !s.chars().any(char::is_lowercase)).into(),
        "zfill" | "ljust" | "rjust" | "center" => {
            let width = args.int(0, "width")?.and_then(|n| usize::try_from(n).ok()).unwrap_or(0).min(1_000_000);
            python::justify(s, name, width, args.text(1, "fillchar")?.as_deref()).into()
        }
        _ => return Ok(None),
    }))
}

/// Methods that look for a text, perhaps between two places, which count characters.
fn within(s: &str, name: &str, args: &Arguments<'_>) -> Result<Value, Error> {
    let chars = s.chars().count() as i128;
    let place = |n: Option<i128>, default: i128| n.map_or(default, |n| if n < 0 { n + chars } else { n }).clamp(0, chars);
    let (start, stop) = (place(args.int(1, "start")?, 0), place(args.int(2, "end")?, chars));
    let byte = |n: i128| s.char_indices().nth(n as usize).map_or(s.len(), |(i, _)| i);
    let part = s.get(byte(start)..byte(stop)).unwrap_or("");
    if name == "startswith" || name == "endswith" {
        let wanted = args.get(0, "prefix")?.unwrap_or_default();
        let fits = |w: &Value| match w.as_str() {
            Some(w) => Ok(if name == "startswith" { part.starts_with(w) } else { part.ends_with(w) }),
            None => Err(type_error(format!("{name} is not for {}", w.kind()))),
        };
        if is_tuple(&wanted) {
            for one in wanted.try_iter()? {
                if fits(&one)? {
                    return Ok(true.into());
                }
            }
            return Ok(false.into());
        }
        return fits(&wanted).map(Value::from);
    }
    let wanted = args.needed(0, "sub")?;
    if name == "count" {
        return Ok(part.matches(&*wanted).count().into());
    }
    let found = if name.starts_with('r') { part.rfind(&*wanted) } else { part.find(&*wanted) };
    match found {
        Some(at) => Ok((start as i64 + part[..at].chars().count() as i64).into()),
        None if name.ends_with("index") => Err(type_error("it is not in the text".into())),
        None => Ok((-1).into()),
    }
}

fn split(s: &str, sep: Option<&str>, max: usize, from_end: bool) -> Result<Value, Error> {
    let mut parts: Vec<&str> = match (sep, from_end) {
        (Some(""), _) => return Err(type_error("split: the separator is empty".into())),
        (Some(sep), false) => s.splitn(max.saturating_add(1), sep).collect(),
        (Some(sep), true) => s.rsplitn(max.saturating_add(1), sep).collect(),
        (None, false) => {
            let mut parts = Vec::new();
            let mut rest = s.trim_start_matches(python::is_space);
            while !rest.is_empty() {
                if parts.len() == max {
                    parts.push(rest);
                    break;
                }
                let end = rest.find(python::is_space).unwrap_or(rest.len());
                parts.push(&rest[..end]);
                rest = rest[end..].trim_start_matches(python::is_space);
            }
            parts
        }
        (None, true) => {
            let mut parts = Vec::new();
            let mut rest = s.trim_end_matches(python::is_space);
            while !rest.is_empty() {
                if parts.len() == max {
                    parts.push(rest);
                    break;
                }
                let (at, len) = rest.char_indices().rfind(|(_, c)| python::is_space(*c)).map_or((0, 0), |(i, c)| (i, c.len_utf8()));
                parts.push(&rest[at + len..]);
                rest = rest[..at].trim_end_matches(python::is_space);
            }
            parts
        }
    };
    if from_end {
        parts.reverse();
    }
    Ok(Value::from_iter(parts))
}
