//! Chat templates: Jinja as Hugging Face's `apply_chat_template` runs it, on minijinja.
//!
//! Templates are translated first (`jinja`), so that operators, filters and methods do what they do in Python. What still differs:
//! macros have no `varargs` and their defaults cannot name other parameters, 1 and true are two keys, `str.format` knows neither `!r` nor `%`,
//! and jinja2's `print`, `cycler`, `joiner`, `lipsum` and rarer filters (`wordcount`, `truncate`, `striptags`) are missing. No template of
//! `tests/templates` asks for any of it.

use super::TextError;
use super::jinja::{self, spent};
use super::python;
use super::strftime;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde_json::{Map, Value as JsonValue};
use std::io;

/// The template that is used unless the request brings tools and there is one named for them.
pub(super) const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

/// A model's templates by name, and the variables that all of them see.
pub struct ChatTemplates {
    env: Environment<'static>,
    /// By name, before they were translated.
    sources: Vec<(String, String)>,
    /// `bos_token` and its like, with their texts.
    specials: Map<String, JsonValue>,
}

/// Many times what the longest request's words can become.
const OUTPUT_BYTES_MAX: usize = 100_000_000;

/// What a template writes, up to a bound: one that writes for ever must not take the machine's memory.
#[derive(Default)]
struct Bounded {
    text: Vec<u8>,
    full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.full |= self.text.len() + bytes.len() > OUTPUT_BYTES_MAX;
        if self.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What `raise_exception` throws, to be told from errors of the template itself.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

impl ChatTemplates {
    /// Compiles the templates, given as (name, source). The error is a reason that names the template.
    pub fn new(sources: Vec<(String, String)>, specials: Map<String, JsonValue>) -> Result<Self, String> {
        let mut env = environment();
        for (name, source) in &sources {
            let wrong = |why: String| format!("chat template {name:?}: {why}");
            let translated = jinja::translate(source).map_err(|line| wrong(format!("syntax error (in {name}:{line})")))?;
            env.add_template_owned(name.clone(), translated).map_err(|e| wrong(describe(&e)))?;
        }
        Ok(Self { env, sources, specials })
    }

    /// The time that `strftime_now` tells from here on, in Unix seconds: for comparisons.
    pub fn stop_clock(&mut self, seconds: i64) {
        self.env.add_function("strftime_now", move |format: &str| date(strftime::at(seconds, format), format));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.env.templates().next().is_none()
    }

    /// The source of the template that a request with tools gets, as the model brings it.
    pub(super) fn source(&self) -> Option<&str> {
        let one = |name: &str| self.sources.iter().find(|(n, _)| n == name).map(|(_, source)| source.as_str());
        one(TOOL_USE).or_else(|| one(DEFAULT))
    }

    /// As [`super::Text::render_chat`].
    pub fn render(&self, messages: &[JsonValue], kwargs: &Map<String, JsonValue>) -> Result<String, TextError> {
        if self.is_empty() {
            return Err(TextError::NoTemplate);
        }
        let name = self.pick(kwargs)?;
        let mut variables = self.specials.clone();
        variables.insert("tools".into(), JsonValue::Null);
        variables.insert("documents".into(), JsonValue::Null);
        variables.insert("add_generation_prompt".into(), true.into());
        variables.extend(kwargs.iter().map(|(k, v)| (k.clone(), v.clone())));
        variables.insert("messages".into(), messages.into());
        let mut out = Bounded::default();
        spent::begin();
        let done = self.env.get_template(name).and_then(|t| t.render_captured_to(Value::from_serialize(&variables), &mut out).map(drop));
        if out.full {
            return Err(TextError::Template(format!("it writes more than {} MB", OUTPUT_BYTES_MAX / 1_000_000)));
        }
        done.and_then(|()| spent::check()).map_err(|e| TextError::Template(describe(&e)))?;
        // It was written as texts and never cut within one.
        String::from_utf8(out.text).map_err(|e| TextError::Template(e.to_string()))
    }

    /// As transformers does: `tool_use` when tools are given and the model has it, else `default`.
    fn pick(&self, kwargs: &Map<String, JsonValue>) -> Result<&'static str, TextError> {
        let has = |name: &str| self.env.templates().any(|(n, _)| n == name);
        let tools = kwargs.get("tools").is_some_and(|t| !t.is_null());
        if tools && has(TOOL_USE) {
            return Ok(TOOL_USE);
        }
        if has(DEFAULT) {
            return Ok(DEFAULT);
        }
        let names: Vec<&str> = self.env.templates().map(|(n, _)| n).collect();
        let names = names.join(", ");
        Err(TextError::Template(format!("the model has none named {DEFAULT:?}, only {names}")))
    }
}

/// The message of `raise_exception` alone, or the error with the line it comes from.
fn describe(error: &Error) -> String {
    let mut source = std::error::Error::source(error);
    while let Some(e) = source {
        if let Some(raised) = e.downcast_ref::<Raised>() {
            return raised.0.clone();
        }
        source = e.source();
    }
    error.to_string()
}

fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    // Instructions that one rendering may take: a thousand messages take some tens of thousands. A template that loops for ever ends here.
    env.set_fuel(Some(20_000_000));
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_keep_trailing_newline(false);
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_formatter(|out, _, value| {
        let text = python::str(value);
        spent::check()?;
        out.write_str(&text).map_err(Error::from)
    });
    jinja::install(&mut env);
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", strftime_now);
    env
}

fn raise_exception(message: String) -> Result<Value, Error> {
    let error = Error::new(ErrorKind::InvalidOperation, "raised by the template");
    Err(error.with_source(Raised(message)))
}

fn strftime_now(format: &str) -> Result<String, Error> {
    date(strftime::now(format), format)
}

fn date(text: Option<String>, format: &str) -> Result<String, Error> {
    text.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: bad format {format:?}")))
}
