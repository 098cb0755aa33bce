//! Metadata values and the getters that say which key is at fault.

use super::{File, GgufError};

/// One metadata value, as stored.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(String),
    Array(Array),
}

/// One array, typed as a whole so that it takes about as much memory as it takes in the file.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    String(Vec<String>),
}

impl Value {
    /// What error messages call it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::U8(_) => "u8",
            Value::I8(_) => "i8",
            Value::U16(_) => "u16",
            Value::I16(_) => "i16",
            Value::U32(_) => "u32",
            Value::I32(_) => "i32",
            Value::U64(_) => "u64",
            Value::I64(_) => "i64",
            Value::F32(_) => "f32",
            Value::F64(_) => "f64",
            Value::Bool(_) => "bool",
            Value::String(_) => "string",
            Value::Array(a) => a.type_name(),
        }
    }

    /// Any integer that fits, whatever its width: writers disagree about widths.
    fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::U8(v) => Some(v.into()),
            Value::U16(v) => Some(v.into()),
            Value::U32(v) => Some(v.into()),
            Value::U64(v) => Some(v),
            Value::I8(v) => v.try_into().ok(),
            Value::I16(v) => v.try_into().ok(),
            Value::I32(v) => v.try_into().ok(),
            Value::I64(v) => v.try_into().ok(),
            _ => None,
        }
    }

    fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::F32(v) => Some(v.into()),
            Value::F64(v) => Some(v),
            _ => self.as_u64().map(|v| v as f64),
        }
    }
}

impl Array {
    pub fn type_name(&self) -> &'static str {
        match self {
            Array::U8(_) => "array of u8",
            Array::I8(_) => "array of i8",
            Array::U16(_) => "array of u16",
            Array::I16(_) => "array of i16",
            Array::U32(_) => "array of u32",
            Array::I32(_) => "array of i32",
            Array::U64(_) => "array of u64",
            Array::I64(_) => "array of i64",
            Array::F32(_) => "array of f32",
            Array::F64(_) => "array of f64",
            Array::Bool(_) => "array of bool",
            Array::String(_) => "array of string",
        }
    }
}

/// Getters: `x(key)` fails when the key is missing or of another type, `x_opt(key)` fails only on another type.
impl File {
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    pub fn u64_opt(&self, key: &str) -> Result<Option<u64>, GgufError> {
        self.get(key, "an integer of at least 0", Value::as_u64)
    }

    pub fn u64(&self, key: &str) -> Result<u64, GgufError> {
        self.needed(key, self.u64_opt(key)?)
    }

    pub fn u32_opt(&self, key: &str) -> Result<Option<u32>, GgufError> {
        self.get(key, "an integer from 0 to 4294967295", |v| v.as_u64().and_then(|v| v.try_into().ok()))
    }

    pub fn u32(&self, key: &str) -> Result<u32, GgufError> {
        self.needed(key, self.u32_opt(key)?)
    }

    pub fn f64_opt(&self, key: &str) -> Result<Option<f64>, GgufError> {
        self.get(key, "a number", Value::as_f64)
    }

    pub fn f64(&self, key: &str) -> Result<f64, GgufError> {
        self.needed(key, self.f64_opt(key)?)
    }

    pub fn f32_opt(&self, key: &str) -> Result<Option<f32>, GgufError> {
        Ok(self.f64_opt(key)?.map(|v| v as f32))
    }

    pub fn f32(&self, key: &str) -> Result<f32, GgufError> {
        self.needed(key, self.f32_opt(key)?)
    }

    pub fn bool_opt(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.get(key, "a bool", |v| match v {
            Value::Bool(b) => Some(*b),
            _ => None,
        })
    }

    pub fn str_opt(&self, key: &str) -> Result<Option<&str>, GgufError> {
        self.get(key, "a string", |v| match v {
            Value::String(s) => Some(s.as_str()),
            _ => None,
        })
    }

    pub fn str(&self, key: &str) -> Result<&str, GgufError> {
        self.needed(key, self.str_opt(key)?)
    }

    pub fn strings_opt(&self, key: &str) -> Result<Option<&[String]>, GgufError> {
        self.get(key, "an array of strings", |v| match v {
            Value::Array(Array::String(a)) => Some(a.as_slice()),
            _ => None,
        })
    }

    pub fn strings(&self, key: &str) -> Result<&[String], GgufError> {
        self.needed(key, self.strings_opt(key)?)
    }

    pub fn f32s_opt(&self, key: &str) -> Result<Option<&[f32]>, GgufError> {
        self.get(key, "an array of f32", |v| match v {
            Value::Array(Array::F32(a)) => Some(a.as_slice()),
            _ => None,
        })
    }

    pub fn i32s_opt(&self, key: &str) -> Result<Option<&[i32]>, GgufError> {
        self.get(key, "an array of i32", |v| match v {
            Value::Array(Array::I32(a)) => Some(a.as_slice()),
            _ => None,
        })
    }

    /// An error about one metadata key of this file, for callers that check more than its type.
    pub fn key_error(&self, key: &str, reason: impl Into<String>) -> GgufError {
        GgufError::Key { file: self.path().to_owned(), key: key.to_owned(), reason: reason.into() }
    }

    fn get<'a, T>(&'a self, key: &str, allowed: &str, take: impl FnOnce(&'a Value) -> Option<T>) -> Result<Option<T>, GgufError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        match take(value) {
            Some(v) => Ok(Some(v)),
            None => Err(self.key_error(key, format!("is {}, must be {allowed}", describe(value)))),
        }
    }

    fn needed<T>(&self, key: &str, value: Option<T>) -> Result<T, GgufError> {
        value.ok_or_else(|| self.key_error(key, "not in the file"))
    }
}

/// Numbers are shown, because a wrong one is the likelier fault; texts and arrays are long, so their type must do.
fn describe(value: &Value) -> String {
    let kind = value.type_name();
    match value {
        Value::I8(v) => format!("{kind} {v}"),
        Value::I16(v) => format!("{kind} {v}"),
        Value::I32(v) => format!("{kind} {v}"),
        Value::I64(v) => format!("{kind} {v}"),
        Value::U64(v) => format!("{kind} {v}"),
        _ => kind.to_owned(),
    }
}
