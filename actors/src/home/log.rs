//! What the worker logs, in the server's log with the worker's name.

use serde::Deserialize;
use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};
use tracing::Level;

/// Of a longer line this much is passed on.
const LINE_MAX: u64 = 16 << 10;

/// A line as the worker's own logging writes it.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    level: Cow<'a, str>,
    fields: Fields<'a>,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(flatten)]
    more: serde_json::Map<String, serde_json::Value>,
}

/// Reads until the process is gone.
pub(super) fn pass_on(from: impl Read, pid: u32) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(LINE_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => say(&line, pid),
            // The pipe to a child has no error but that it ends.
            Err(error) => return tracing::warn!(worker = pid, %error, "the worker's log cannot be read any more"),
        }
    }
}

fn say(line: &[u8], pid: u32) {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end();
    if line.is_empty() {
        return;
    }
    let (level, text) = read(line);
    match level {
        Level::ERROR => tracing::error!(target: "worker", worker = pid, "{text}"),
        Level::WARN => tracing::warn!(target: "worker", worker = pid, "{text}"),
        Level::INFO => tracing::info!(target: "worker", worker = pid, "{text}"),
        Level::DEBUG => tracing::debug!(target: "worker", worker = pid, "{text}"),
        Level::TRACE => tracing::trace!(target: "worker", worker = pid, "{text}"),
    }
}

/// A record's level and text. Whatever else stands in the log was written by a library that has something to complain about.
fn read(line: &str) -> (Level, String) {
    let Ok(Record { level, fields }) = serde_json::from_str::<Record>(line) else {
        return (Level::WARN, line.to_owned());
    };
    let mut text = fields.message.into_owned();
    for (name, value) in fields.more {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.push_str(&format!(" {name}={value}"));
    }
    (level.parse().unwrap_or(Level::WARN), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_level_and_fields() {
        let rows = [
            (
                r#"{"timestamp":"t","level":"INFO","fields":{"message":"loaded \"x\"","blocks":7,"why":"as given"},"target":"m"}"#,
                Level::INFO,
                "loaded \"x\" blocks=7 why=as given",
            ),
            (r#"{"level":"ERROR","fields":{"error":"none"}}"#, Level::ERROR, " error=none"),
            (r#"{"level":"LOUD","fields":{"message":"m"}}"#, Level::WARN, "m"),
            ("terminate called after throwing an instance of 'std::bad_alloc'", Level::WARN, "terminate called after throwing an instance of 'std::bad_alloc'"),
            ("{", Level::WARN, "{"),
        ];
        for (line, level, text) in rows {
            assert_eq!(read(line), (level, text.to_owned()), "{line}");
        }
    }
}
