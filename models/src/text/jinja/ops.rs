//! Python's operators, as functions.

use super::markup::{concat, marked_like};
use super::methods::{self, Bound};
use super::spent;
use super::tuple::{Tuple, is_list, is_tuple};
use super::view::is_view;
use crate::text::python;
use minijinja::value::{Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, FormatStyle, State, format_filter};
use std::cmp::Ordering;

type Res = Result<Value, Error>;

/// The functions that [`super::translate`] writes calls of.
pub(super) fn install(env: &mut Environment<'static>) {
    env.add_function("__tuple", |items: Rest<Value>| Value::from_object(Tuple(items.0)));
    env.add_function("__keep", keep);
    env.add_function("__kept", |state: &State<'_, '_>| state.get_temp(KEPT).unwrap_or_default());
    env.add_function("__add", |terms: Rest<Value>| fold(terms, add));
    env.add_function("__sub", |a: &Value, b: &Value| arithmetic("-", a, b));
    env.add_function("__mul", mul);
    env.add_function("__div", |a: &Value, b: &Value| arithmetic("/", a, b));
    env.add_function("__floordiv", |a: &Value, b: &Value| arithmetic("//", a, b));
    env.add_function("__mod", modulo);
    env.add_function("__pow", |a: &Value, b: &Value| arithmetic("**", a, b));
    env.add_function("__neg", |a: &Value| arithmetic("-", &Value::from(0), a));
    env.add_function("__pos", |a: &Value| arithmetic("+", &Value::from(0), a));
    env.add_function("__join", |parts: Rest<Value>| spent::joined(&parts.iter().map(python::str).collect::<Vec<_>>(), ""));
    env.add_function("__eq", |a: &Value, b: &Value| equal(a, b));
    env.add_function("__ne", |a: &Value, b: &Value| !equal(a, b));
    env.add_function("__lt", |a: &Value, b: &Value| order("<", a, b).map(Ordering::is_lt));
    env.add_function("__le", |a: &Value, b: &Value| order("<=", a, b).map(Ordering::is_le));
    env.add_function("__gt", |a: &Value, b: &Value| order(">", a, b).map(Ordering::is_gt));
    env.add_function("__ge", |a: &Value, b: &Value| order(">=", a, b).map(Ordering::is_ge));
    env.add_function("__in", contains);
    env.add_function("__iter", |a: &Value| iterable(a).map(|()| a.clone()));
    env.add_function("__attr", attr);
    env.add_function("__item", item);
    env.add_function("__slice", slice);
    env.add_function("dict", dict);
}

/// `dict(pairs or a mapping, …)`.
fn dict(from: Rest<Value>) -> Res {
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    for source in from.iter() {
        match source.as_object().and_then(|o| o.try_iter_pairs()).filter(|_| source.kind() == ValueKind::Map) {
            Some(items) => pairs.extend(items),
            None => {
                iterable(source)?;
                for pair in source.try_iter()? {
                    let mut pair = pair.try_iter()?;
                    match (pair.next(), pair.next(), pair.next()) {
                        (Some(key), Some(value), None) => pairs.push((key, value)),
                        _ => return Err(type_error("dict needs pairs".into())),
                    }
                }
            }
        }
    }
    Ok(pairs.into_iter().collect())
}

const KEPT: &str = "kept";

fn keep(state: &State<'_, '_>, value: Value) -> bool {
    let truth = value.is_true();
    if !truth {
        state.set_temp(KEPT, value);
    }
    truth
}

fn fold(terms: Rest<Value>, one: fn(&Value, &Value) -> Res) -> Res {
    let mut terms = terms.0.into_iter();
    let first = terms.next().unwrap_or_default();
    terms.try_fold(first, |a, b| one(&a, &b))
}

pub(super) fn type_error(text: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, text)
}

fn unsupported(sign: &str, a: &Value, b: &Value) -> Error {
    match (a.kind(), b.kind()) {
        (ValueKind::Undefined, _) | (_, ValueKind::Undefined) => Error::new(ErrorKind::UndefinedError, format!("a side of {sign} is undefined")),
        (a, b) => type_error(format!("{sign} is not for {a} and {b}")),
    }
}

#[derive(Clone, Copy)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub(super) fn float(self) -> f64 {
        match self {
            Number::Int(n) => n as f64,
            Number::Float(x) => x,
        }
    }
}

/// Python's numbers, of which booleans are some.
pub(super) fn number(value: &Value) -> Option<Number> {
    match value.kind() {
        ValueKind::Bool => Some(Number::Int(value.is_true().into())),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Number::Int),
        ValueKind::Number => f64::try_from(value.clone()).ok().map(Number::Float),
        _ => None,
    }
}

fn int(n: i128) -> Value {
    i64::try_from(n).map_or_else(|_| Value::from(n), Value::from)
}

fn arithmetic(sign: &str, a: &Value, b: &Value) -> Res {
    let (Some(x), Some(y)) = (number(a), number(b)) else { return Err(unsupported(sign, a, b)) };
    let zero = matches!(y, Number::Int(0)) || y.float() == 0.0;
    if zero && ["/", "//", "%"].contains(&sign) {
        return Err(type_error("division by zero".into()));
    }
    let result = match (sign, x, y) {
        ("+", Number::Int(x), Number::Int(y)) => x.checked_add(y).map(int),
        ("-", Number::Int(x), Number::Int(y)) => x.checked_sub(y).map(int),
        ("*", Number::Int(x), Number::Int(y)) => x.checked_mul(y).map(int),
        ("//", Number::Int(x), Number::Int(y)) => x.checked_div_euclid(y).map(|q| int(q - i128::from(y < 0 && x.rem_euclid(y) != 0))),
        ("%", Number::Int(x), Number::Int(y)) => x.checked_rem_euclid(y).map(|r| int(if y < 0 && r != 0 { r + y } else { r })),
        ("**", Number::Int(x), Number::Int(y)) if y >= 0 => u32::try_from(y).ok().and_then(|y| x.checked_pow(y)).map(int),
        ("+", ..) => Some((x.float() + y.float()).into()),
        // Not 0 - x, which would lose the sign of zero.
        ("-", Number::Int(0), _) => Some((-y.float()).into()),
        ("-", ..) => Some((x.float() - y.float()).into()),
        ("*", ..) => Some((x.float() * y.float()).into()),
        ("/", ..) => Some((x.float() / y.float()).into()),
        ("//", ..) => Some((x.float() / y.float()).floor().into()),
        ("%", ..) => Some((x.float() - y.float() * (x.float() / y.float()).floor()).into()),
        ("**", ..) => Some(x.float().powf(y.float()).into()),
        _ => None,
    };
    result.ok_or_else(|| type_error(format!("{a} {sign} {b} is too large")))
}

fn add(a: &Value, b: &Value) -> Res {
    if a.as_str().is_some() && b.as_str().is_some() {
        return Ok(concat(a, b));
    }
    let both = |is: fn(&Value) -> bool| is(a) && is(b);
    if both(is_list) || both(is_tuple) {
        spent::items(a.len().unwrap_or(0).saturating_add(b.len().unwrap_or(0)));
        spent::check()?;
        let items: Vec<Value> = a.try_iter()?.chain(b.try_iter()?).collect();
        return Ok(if is_tuple(a) { Value::from_object(Tuple(items)) } else { items.into() });
    }
    arithmetic("+", a, b)
}

/// Most bytes or items that repetition may make.
const REPEATED_MAX: usize = 10_000_000;

fn mul(a: &Value, b: &Value) -> Res {
    let (many, times) = if number(b).is_some() { (a, b) } else { (b, a) };
    let len = match many.kind() {
        ValueKind::String => many.as_str().map(str::len),
        ValueKind::Seq => many.len(),
        _ => None,
    };
    let (Some(len), Some(Number::Int(times))) = (len, number(times)) else { return arithmetic("*", a, b) };
    let times = usize::try_from(times.max(0)).unwrap_or(usize::MAX);
    if len.saturating_mul(times) > REPEATED_MAX {
        return Err(type_error("a repetition is too large".into()));
    }
    if many.as_str().is_some() {
        spent::bytes(len * times)
    } else {
        spent::items(len * times)
    };
    spent::check()?;
    if let Some(text) = many.as_str() {
        return Ok(marked_like(many, text.repeat(times)));
    }
    let items: Vec<Value> = many.try_iter()?.collect();
    let items: Vec<Value> = (0..times).flat_map(|_| items.iter().cloned()).collect();
    Ok(if is_tuple(many) { Value::from_object(Tuple(items)) } else { items.into() })
}

fn modulo(a: &Value, b: &Value) -> Res {
    let Some(format) = a.as_str() else { return arithmetic("%", a, b) };
    let arguments = if is_tuple(b) { b.try_iter()?.collect() } else { vec![b.clone()] };
    format_percent(format, &arguments)
}

/// `format % arguments`; `%s` takes anything, as Python writes it.
pub(super) fn format_percent(format: &str, arguments: &[Value]) -> Res {
    let arguments: Vec<Value> =
        arguments.iter().map(|a| if number(a).is_some() && !matches!(a.kind(), ValueKind::Bool) { a.clone() } else { python::str(a).into() }).collect();
    format_filter(FormatStyle::Printf, format, &arguments).map(Value::from)
}

/// `a == b`.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    is_tuple(a) == is_tuple(b) && a == b
}

fn order(sign: &str, a: &Value, b: &Value) -> Result<Ordering, Error> {
    // Nothing is in an order with NaN: what Python answers is false, whatever the sign.
    let of_nan = if sign.starts_with('<') { Ordering::Greater } else { Ordering::Less };
    match (number(a), number(b)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => return Ok(a.cmp(&b)),
        (Some(a), Some(b)) => return Ok(a.float().partial_cmp(&b.float()).unwrap_or(of_nan)),
        _ => {}
    }
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return Ok(a.cmp(b));
    }
    if (is_list(a) && is_list(b)) || (is_tuple(a) && is_tuple(b)) {
        let (mut xs, mut ys) = (a.try_iter()?, b.try_iter()?);
        loop {
            match (xs.next(), ys.next()) {
                (Some(x), Some(y)) if equal(&x, &y) => {}
                (Some(x), Some(y)) => return order(sign, &x, &y),
                (x, y) => return Ok(x.is_some().cmp(&y.is_some())),
            }
        }
    }
    Err(unsupported(sign, a, b))
}

pub(super) fn contains(item: &Value, container: &Value) -> Result<bool, Error> {
    match container.kind() {
        ValueKind::Undefined => Ok(false),
        ValueKind::String => match (container.as_str(), item.as_str()) {
            (Some(text), Some(part)) => Ok(text.contains(part)),
            _ => Err(type_error(format!("a text cannot hold {}", item.kind()))),
        },
        ValueKind::Map if is_list(item) || item.kind() == ValueKind::Map => Err(type_error(format!("{} is no key", item.kind()))),
        ValueKind::Map => Ok(container.as_object().is_some_and(|map| map.get_value(item).is_some())),
        ValueKind::Seq | ValueKind::Iterable => Ok(container.try_iter()?.any(|x| equal(&x, item))),
        kind => Err(type_error(format!("{kind} holds nothing"))),
    }
}

/// Whether Python could iterate over it; over what is undefined it can.
pub(super) fn iterable(value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => Ok(()),
        kind => Err(type_error(format!("{kind} is not iterable"))),
    }
}

/// `value.name`, where the name is that of a method.
fn attr(value: &Value, name: &str) -> Res {
    if methods::has(value, name) {
        return Ok(Value::from_object(Bound { value: value.clone(), name: name.to_owned() }));
    }
    if methods::hides(value, name) {
        return Ok(Value::UNDEFINED);
    }
    value.get_attr(name)
}

/// `value[key]`.
fn item(value: &Value, key: &Value) -> Res {
    let found = match (value.kind(), number(key)) {
        (ValueKind::Iterable, _) if is_view(value) => Value::UNDEFINED,
        (ValueKind::Seq | ValueKind::Iterable | ValueKind::String, Some(Number::Int(at))) => value.get_item(&int(at))?,
        (ValueKind::Seq | ValueKind::Iterable | ValueKind::String, _) => Value::UNDEFINED,
        _ => value.get_item(key)?,
    };
    match key.as_str() {
        Some(name) if found.is_undefined() => attr_of_missing(value, name, found),
        _ => Ok(found),
    }
}

/// jinja2 looks for an attribute where there is no item.
fn attr_of_missing(value: &Value, name: &str, found: Value) -> Res {
    if methods::has(value, name) { attr(value, name) } else { Ok(found) }
}

fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Res {
    let bound = |v: &Value| match (v.kind(), number(v)) {
        (ValueKind::None, _) => Ok(None),
        (_, Some(Number::Int(n))) => Ok(Some(n)),
        (kind, _) => Err(type_error(format!("a slice cannot begin, end or step at {kind}"))),
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    let taken = |len: usize| -> Result<Vec<usize>, Error> {
        let len = len as i128;
        let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
        let at = |bound: Option<i128>, default: i128| bound.map_or(default, |n| (if n < 0 { n + len } else { n }).clamp(low, high));
        let (first, last) = if step > 0 { (at(start, 0), at(stop, len)) } else { (at(start, len - 1), at(stop, -1)) };
        if step == 0 {
            return Err(type_error("a slice cannot step by zero".into()));
        }
        let mut taken = Vec::new();
        let mut i = first;
        while (step > 0 && i < last) || (step < 0 && i > last) {
            taken.push(i as usize);
            i = i.saturating_add(step);
        }
        Ok(taken)
    };
    spent::items(value.as_str().map(str::len).or_else(|| value.len()).unwrap_or(0));
    spent::check()?;
    if let Some(text) = value.as_str() {
        let chars: Vec<char> = text.chars().collect();
        return Ok(taken(chars.len())?.into_iter().map(|i| chars[i]).collect::<String>().into());
    }
    // The rest of what can be iterated over is a range.
    if is_view(value) || !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Err(unsupported("[:]", value, value));
    }
    let items: Vec<Value> = value.try_iter()?.collect();
    let items: Vec<Value> = taken(items.len())?.into_iter().map(|i| items[i].clone()).collect();
    Ok(if is_tuple(value) { Value::from_object(Tuple(items)) } else { items.into() })
}
