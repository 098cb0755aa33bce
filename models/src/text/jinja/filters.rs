//! Jinja's filters and tests, where minijinja's differ.

use super::markup::{escaped, marked, marked_like};
use super::ops::{Number, contains, equal, format_percent, iterable, number, type_error};
use super::spent;
use super::tuple::Tuple;
use super::view::{Generator, is_view};
use crate::text::python::{self, Json};
use minijinja::value::{Kwargs, Rest, Value, ValueKind, from_args};
use minijinja::{Environment, Error, State, filters};

type Res = Result<Value, Error>;

pub(in crate::text) fn install(env: &mut Environment<'static>) {
    env.add_filter("tojson", tojson);
    env.add_filter("string", |v: &Value| marked_like(v, python::str(v)));
    env.add_filter("safe", |v: &Value| marked(python::str(v)));
    env.add_filter("escape", escaped);
    env.add_filter("e", escaped);
    env.add_filter("upper", |v: &Value| marked_like(v, python::str(v).to_uppercase()));
    env.add_filter("lower", |v: &Value| marked_like(v, python::str(v).to_lowercase()));
    env.add_filter("capitalize", |v: &Value| marked_like(v, python::capitalize(&python::str(v))));
    env.add_filter("title", |v: &Value| marked_like(v, title(&python::str(v))));
    env.add_filter("trim", trim);
    env.add_filter("replace", replace);
    env.add_filter("indent", indent);
    env.add_filter("format", |v: &Value, args: Rest<Value>| format_percent(&python::str(v), &args));
    env.add_filter("join", join);
    env.add_filter("length", length);
    env.add_filter("count", length);
    env.add_filter("int", int);
    env.add_filter("float", float);
    env.add_filter("round", round);
    env.add_filter("dictsort", dictsort);
    env.add_filter("list", |v: &Value| over(v)?.try_iter().map(|items| items.collect::<Value>()));
    env.add_filter("first", |v: &Value| over(v)?.try_iter().map(|mut items| items.next().unwrap_or_default()));
    env.add_filter("last", |v: &Value| over(v)?.try_iter().map(|items| items.last().unwrap_or_default()));
    env.add_filter("items", items);
    env.add_filter("reverse", reverse);
    env.add_filter("map", |s: &State<'_, '_>, v: &Value, args: Rest<Value>| filters::map(s, over_true(v)?, args).map(Generator::of));
    env.add_filter("select", |s: &State<'_, '_>, v: &Value, args: Rest<Value>| picked(s, v, args, "select"));
    env.add_filter("reject", |s: &State<'_, '_>, v: &Value, args: Rest<Value>| picked(s, v, args, "reject"));
    env.add_filter("selectattr", |s: &State<'_, '_>, v: &Value, args: Rest<Value>| picked(s, v, args, "selectattr"));
    env.add_filter("rejectattr", |s: &State<'_, '_>, v: &Value, args: Rest<Value>| picked(s, v, args, "rejectattr"));
    env.add_filter("unique", |s: &State<'_, '_>, v: &Value, args: Kwargs| Ok::<_, Error>(Generator::of(filters::unique(s, over(v)?, args)?.try_iter()?)));
    env.add_filter("sort", |s: &State<'_, '_>, v: &Value, args: Kwargs| filters::sort(s, over(v)?, args));
    // Jinja asks whether Python could iterate or index, and it can for texts and even for what is undefined.
    env.add_test("iterable", |v: &Value| iterable(v).is_ok());
    env.add_test("sequence", |v: &Value| iterable(v).is_ok() && !is_view(v));
    env.add_test("number", |v: &Value| matches!(v.kind(), ValueKind::Number | ValueKind::Bool));
    env.add_test("callable", |v: &Value| matches!(v.kind(), ValueKind::Plain | ValueKind::Undefined));
    env.add_test("in", contains);
    for name in ["eq", "equalto", "=="] {
        env.add_test(name, equal);
    }
    for name in ["ne", "!="] {
        env.add_test(name, |a: &Value, b: &Value| !equal(a, b));
    }
}

/// The value, if Python could iterate over it.
fn over(value: &Value) -> Res {
    iterable(value).map(|()| value.clone())
}

/// As [`over`], or nothing: the lazy filters do not look into what is false.
fn over_true(value: &Value) -> Res {
    if value.is_true() { over(value) } else { Ok(Value::from_iter([] as [Value; 0])) }
}

fn picked(state: &State<'_, '_>, value: &Value, args: Rest<Value>, how: &str) -> Res {
    if !value.is_true() {
        return Ok(Generator::of([]));
    }
    let arguments: Vec<Value> = std::iter::once(over(value)?).chain(args.0).collect();
    let items = if how.ends_with("attr") {
        let (value, attribute, test, rest) = from_args(&arguments)?;
        let filter = if how == "selectattr" { filters::selectattr } else { filters::rejectattr };
        filter(state, value, attribute, test, rest)?
    } else {
        let (value, test, rest) = from_args(&arguments)?;
        let filter = if how == "select" { filters::select } else { filters::reject };
        filter(state, value, test, rest)?
    };
    Ok(Generator::of(items))
}

/// `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`, in Hugging Face's order.
fn tojson(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Res {
    let arg = |at: usize, name: &str| -> Res {
        let named: Option<Value> = kwargs.get(name)?;
        Ok(named.or_else(|| args.get(at).cloned()).unwrap_or_default())
    };
    let indent = arg(1, "indent")?;
    let indent = match indent.as_usize() {
        Some(n) => Some(" ".repeat(n.min(64))),
        None => indent.as_str().map(str::to_owned),
    };
    let separators: Vec<Value> = arg(2, "separators")?.try_iter()?.collect();
    let (item, key) = match separators.as_slice() {
        [item, key] => (python::str(item), python::str(key)),
        _ => ((if indent.is_some() { "," } else { ", " }).into(), ": ".into()),
    };
    let json = Json { ensure_ascii: arg(0, "ensure_ascii")?.is_true(), indent, item, key, sort_keys: arg(3, "sort_keys")?.is_true() };
    kwargs.assert_all_used()?;
    json.dumps(value).map(Value::from)
}

/// `join(d="", attribute=None)`, of `str` of each.
fn join(value: &Value, between: Option<Value>, kwargs: Kwargs) -> Res {
    let named: Option<Value> = kwargs.get("d")?;
    let attribute: Option<String> = kwargs.get("attribute")?;
    kwargs.assert_all_used()?;
    let mut parts = Vec::new();
    for item in over(value)?.try_iter()? {
        let part = match &attribute {
            Some(path) => path.split('.').try_fold(item, |v, name| v.get_attr(name))?,
            None => item,
        };
        parts.push(python::str(&part));
    }
    Ok(spent::joined(&parts, &between.or(named).map_or_else(String::new, |v| python::str(&v))).into())
}

/// Jinja's own: words are what is between white space, hyphens and opening brackets.
fn title(text: &str) -> String {
    let between = |c: char| python::is_space(c) || "-({[<".contains(c);
    text.split_inclusive(between).map(python::capitalize).collect()
}

/// `trim(chars=None)`.
fn trim(value: &Value, chars: Option<&str>) -> Value {
    let text = python::str(value);
    let ends = |c: char| chars.map_or_else(|| python::is_space(c), |chars| chars.contains(c));
    marked_like(value, text.trim_matches(ends).to_owned())
}

/// `replace(old, new, count=None)`.
fn replace(value: &Value, old: &Value, new: &Value, count: Option<usize>) -> Value {
    let (text, old, new) = (python::str(value), python::str(old), python::str(new));
    spent::replaced(&text, &old, &new, count.unwrap_or(usize::MAX)).into()
}

/// `indent(width=4, first=False, blank=False)`.
fn indent(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Res {
    let arg = |at: usize, name: &str| -> Result<Option<Value>, Error> {
        let named: Option<Value> = kwargs.get(name)?;
        Ok(named.or_else(|| args.get(at).cloned()))
    };
    let width = arg(0, "width")?.unwrap_or_else(|| 4.into());
    let (first, blank) = (arg(1, "first")?.is_some_and(|v| v.is_true()), arg(2, "blank")?.is_some_and(|v| v.is_true()));
    kwargs.assert_all_used()?;
    let text = value.as_str().ok_or_else(|| type_error(format!("indent: {} is no text", value.kind())))?;
    let by = match (width.as_str(), width.as_usize()) {
        (Some(by), _) => by.to_owned(),
        (None, Some(n)) => " ".repeat(n.min(1000)),
        _ => String::new(),
    };
    spent::bytes(python::lines(text).count().saturating_mul(by.len()).saturating_add(text.len()));
    spent::check()?;
    let text = format!("{text}\n");
    let mut out = String::new();
    for (i, (line, _)) in python::lines(&text).enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let line = &text[line];
        if if i == 0 { first } else { blank || !line.is_empty() } {
            out += &by;
        }
        out += line;
    }
    Ok(marked_like(value, out))
}

fn length(value: &Value) -> Result<usize, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(0),
        _ => value.len().ok_or_else(|| type_error(format!("{} has no length", value.kind()))),
    }
}

/// `int(default=0, base=10)`.
fn int(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Res {
    let default: Option<Value> = kwargs.get("default")?;
    let base: Option<u32> = kwargs.get("base")?;
    kwargs.assert_all_used()?;
    let default = default.or_else(|| args.first().cloned()).unwrap_or_else(|| 0.into());
    let base = base.or_else(|| args.get(1).and_then(|v| u32::try_from(v.clone()).ok())).filter(|b| (2..=36).contains(b)).unwrap_or(10);
    if value.is_undefined() {
        return Err(Error::from(minijinja::ErrorKind::UndefinedError));
    }
    let whole = |x: f64| if x.is_finite() { Value::from(x.trunc() as i128) } else { default.clone() };
    Ok(match (number(value), value.as_str()) {
        (Some(Number::Int(n)), _) => Value::from(n),
        (Some(Number::Float(x)), _) => whole(x),
        (None, Some(text)) => {
            let text = text.trim_matches(python::is_space);
            match (i128::from_str_radix(text, base), text.parse::<f64>()) {
                (Ok(n), _) => Value::from(n),
                (_, Ok(x)) => whole(x),
                _ => default,
            }
        }
        _ => default,
    })
}

/// `float(default=0.0)`.
fn float(value: &Value, default: Option<Value>, kwargs: Kwargs) -> Res {
    let named: Option<Value> = kwargs.get("default")?;
    kwargs.assert_all_used()?;
    if value.is_undefined() {
        return Err(Error::from(minijinja::ErrorKind::UndefinedError));
    }
    let read = match (number(value), value.as_str()) {
        (Some(n), _) => Some(n.float()),
        (None, text) => text.and_then(|t| t.trim_matches(python::is_space).parse().ok()),
    };
    Ok(read.map_or_else(|| default.or(named).unwrap_or_else(|| 0.0.into()), Value::from))
}

/// `round(precision=0, method="common")`: to the even neighbour where both are as near.
fn round(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Res {
    let (precision, method): (Option<i32>, Option<String>) = (kwargs.get("precision")?, kwargs.get("method")?);
    kwargs.assert_all_used()?;
    let precision = precision.or_else(|| args.first().and_then(|v| i32::try_from(v.clone()).ok())).unwrap_or(0).clamp(0, 300);
    let method = method.or_else(|| args.get(1).map(python::str)).unwrap_or_else(|| "common".into());
    let scale = 10f64.powi(precision);
    match (number(value), method.as_str()) {
        (Some(Number::Int(_)), "common") => Ok(value.clone()),
        (Some(n), "common") => Ok(format!("{:.*}", precision as usize, n.float()).parse::<f64>().map_or_else(|_| value.clone(), Value::from)),
        (Some(n), "ceil") => Ok(((n.float() * scale).ceil() / scale).into()),
        (Some(n), "floor") => Ok(((n.float() * scale).floor() / scale).into()),
        _ => Err(type_error(format!("round: not for {} and {method:?}", value.kind()))),
    }
}

fn dictsort(value: &Value, kwargs: Kwargs) -> Res {
    let pairs = filters::dictsort(value, kwargs)?;
    Ok(pairs.try_iter()?.map(|pair| Ok(Value::from_object(Tuple(pair.try_iter()?.collect())))).collect::<Result<Vec<Value>, Error>>()?.into())
}

fn items(value: &Value) -> Res {
    match value.kind() {
        ValueKind::Undefined => Ok(Generator::of([])),
        ValueKind::Map => {
            let pairs = value.as_object().and_then(|o| o.try_iter_pairs()).into_iter().flatten();
            Ok(Generator::of(pairs.map(|(k, v)| Value::from_object(Tuple(vec![k, v])))))
        }
        kind => Err(type_error(format!("items: {kind} is no mapping"))),
    }
}

fn reverse(value: &Value) -> Res {
    if let Some(text) = value.as_str() {
        return Ok(text.chars().rev().collect::<String>().into());
    }
    let mut items: Vec<Value> = over(value)?.try_iter()?.collect();
    items.reverse();
    Ok(Generator::of(items))
}
