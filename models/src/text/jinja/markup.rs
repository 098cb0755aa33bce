//! Texts that are marked as safe HTML: what `+` puts to them is escaped, even where nothing else is.

use super::spent;
use crate::text::python;
use minijinja::value::Value;

pub(super) fn marked(text: String) -> Value {
    Value::from_safe_string(text)
}

/// The text, marked if the value was.
pub(super) fn marked_like(value: &Value, text: String) -> Value {
    if value.is_safe() { marked(text) } else { text.into() }
}

/// `str` of the value in HTML, whose entities differ from minijinja's; marked.
pub(super) fn escaped(value: &Value) -> Value {
    let text = python::str(value);
    if value.is_safe() {
        return marked(text);
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    marked(spent::text(text.replace('\'', "&#39;").replace('"', "&#34;")))
}

/// `a + b` of texts: if one is marked, the other is escaped.
pub(super) fn concat(a: &Value, b: &Value) -> Value {
    if a.is_safe() || b.is_safe() {
        return marked(spent::joined(&[python::str(&escaped(a)), python::str(&escaped(b))], ""));
    }
    spent::joined(&[python::str(a), python::str(b)], "").into()
}
