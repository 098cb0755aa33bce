//! Reads the fields of a JSON object one by one, so that every complaint names its field and says what is allowed.
//!
//! `null` is the same as absent everywhere: client libraries send it for what their user left out. Of a field given twice the last one
//! counts, as in every common JSON reader.

use crate::refusal::Refusal;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// An object being read; fields are taken out of it, so that long strings move and are not copied.
pub(crate) struct Fields {
    map: Map<String, Value>,
    /// Where the object lies in the body: empty for the body itself.
    at: String,
}

impl Fields {
    pub(crate) fn new(at: impl Into<String>, value: Value) -> Result<Fields, Refusal> {
        let at = at.into();
        match value {
            Value::Object(map) => Ok(Fields { map, at }),
            other => Err(wrong(&at, "a JSON object", &other)),
        }
    }

    /// The path of one of this object's fields.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.swap_remove(name).filter(|v| !v.is_null())
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, Refusal> {
        self.read(name, "true or false", |v| v.as_bool())
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(other) => Err(wrong(&self.path(name), "a string", &other)),
        }
    }

    pub(crate) fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(wrong(&self.path(name), "an array", &other)),
        }
    }

    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(other) => Err(wrong(&self.path(name), "a JSON object", &other)),
        }
    }

    pub(crate) fn integer(&mut self, name: &str, range: RangeInclusive<i128>) -> Result<Option<i128>, Refusal> {
        let allowed = format!("an integer from {} to {}", range.start(), range.end());
        self.read(name, &allowed, |v| integer(v).filter(|n| range.contains(n)))
    }

    /// A number that `fits`; `allowed` says which do. It is judged as the f32 that the sampler will see.
    pub(crate) fn number(&mut self, name: &str, allowed: &str, fits: impl Fn(f32) -> bool) -> Result<Option<f32>, Refusal> {
        // Adding zero turns −0 into 0.
        self.read(name, allowed, |v| v.as_f64().map(|x| x as f32 + 0.0).filter(|x| fits(*x)))
    }

    fn read<T>(&mut self, name: &str, allowed: &str, parse: impl Fn(&Value) -> Option<T>) -> Result<Option<T>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => parse(&value).map(Some).ok_or_else(|| wrong(&self.path(name), allowed, &value)),
        }
    }
}

/// A whole number. `3.0` is one (JavaScript and pydantic both say so) as long as a double still tells neighbours apart.
pub(crate) fn integer(value: &Value) -> Option<i128> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let whole = |x: f64| (x.fract() == 0.0 && x.abs() <= EXACT).then_some(x as i128);
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from)).or_else(|| value.as_f64().and_then(whole))
}

/// 400: the field is not what is allowed. Numbers are shown; text is not, for it may be long or private.
pub(crate) fn wrong(path: &str, allowed: &str, got: &Value) -> Refusal {
    let got = match got {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(s) if s.is_empty() => "an empty string".to_owned(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(list) => format!("an array of {}", list.len()),
        Value::Object(_) => "an object".to_owned(),
    };
    Refusal::field(path, format!("must be {allowed}, not {got}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whole_numbers() {
        let rows = [
            (json!(3), Some(3)),
            (json!(3.0), Some(3)),
            (json!(-0.0), Some(0)),
            (json!(3.5), None),
            (json!(u64::MAX), Some(u64::MAX.into())),
            (json!(i64::MIN), Some(i64::MIN.into())),
            (json!(1e300), None),
            (json!("3"), None),
            (json!(true), None),
        ];
        for (value, expect) in rows {
            assert_eq!(integer(&value), expect, "{value}");
        }
    }

    #[test]
    fn null_is_absent_and_the_last_of_two_counts() {
        let value: Value = serde_json::from_str(r#"{"a":null,"b":1,"b":2}"#).unwrap();
        let mut fields = Fields::new("", value).unwrap();
        assert_eq!(fields.flag("a").unwrap(), None);
        assert_eq!(fields.integer("b", 0..=9).unwrap(), Some(2));
    }

    #[test]
    fn complaints_name_the_path_and_what_is_allowed() {
        let mut fields = Fields::new("stream_options", json!({"include_usage": "yes", "n": 12})).unwrap();
        let refusal = fields.flag("include_usage").unwrap_err();
        assert_eq!(refusal.message, "stream_options.include_usage must be true or false, not a string");
        assert_eq!(fields.integer("n", 0..=9).unwrap_err().message, "stream_options.n must be an integer from 0 to 9, not 12");
        assert_eq!(Fields::new("", json!([1])).err().unwrap().message, "the body must be a JSON object, not an array of 1");
    }
}
