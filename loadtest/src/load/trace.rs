//! A recorded trace to replay: JSON lines, each with a timestamp and what was asked, or how long it was. Pure.

use super::prompts::{self, Asked, Conversation, LineError};
use serde::Deserialize;
use std::time::Duration;

/// What a trace's timestamps count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Unit {
    #[default]
    S,
    Ms,
}

/// One arrival.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Since the first one, as recorded.
    pub at: Duration,
    pub asks: Asks,
    /// Tokens of the answer, where the trace says.
    pub output_tokens: Option<u32>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Asks {
    Conversation(Conversation),
    /// Random words, so many.
    Words(u32),
}

#[derive(Deserialize)]
struct Line {
    timestamp: f64,
    input_length: Option<u32>,
    output_length: Option<u32>,
    #[serde(flatten)]
    asked: Asked,
}

/// Timestamps must not fall: a trace out of order is more likely a mistake than meant.
pub fn parse(text: &str, unit: Unit) -> Result<Vec<Entry>, LineError> {
    let scale = if unit == Unit::Ms { 1e-3 } else { 1.0 };
    let mut first = None;
    let mut last = f64::MIN;
    prompts::lines(text, "entry", |line| {
        let line: Line = prompts::json(line)?;
        let at = line.timestamp * scale;
        // A year in seconds, beyond which a duration of the replay says nothing; epochs are fine, they are relative.
        if !at.is_finite() || at - *first.get_or_insert(at) > 3.2e7 {
            return Err(format!("timestamp {}: more than a year after the first; is the unit right (--trace-unit)?", line.timestamp));
        }
        if at < last {
            return Err(format!("timestamp {} is before the one above; timestamps must not fall", line.timestamp));
        }
        last = at;
        for (name, value) in [("input_length", line.input_length), ("output_length", line.output_length)] {
            if value == Some(0) {
                return Err(format!("{name} must be 1 or more"));
            }
        }
        let asks = match (line.asked.nothing(), line.input_length) {
            (true, Some(count)) => Asks::Words(count),
            (true, None) => return Err("it must have one of prompt, turns, messages, input_length beside its timestamp".into()),
            // A length beside the text is a remark.
            (false, _) => Asks::Conversation(line.asked.conversation()?),
        };
        let since_first = at - first.unwrap_or(at);
        Ok(Entry { at: Duration::from_secs_f64(since_first), asks, output_tokens: line.output_length })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_relative_to_the_first() {
        let text = r#"{"timestamp":1700000000.5,"prompt":"a","output_length":9}
{"timestamp":1700000000.5,"input_length":300,"output_length":20,"hash_ids":[1,2]}

{"timestamp":1700000002,"messages":[{"role":"user","content":"b"}],"input_length":4}"#;
        let entries = parse(text, Unit::S).unwrap();
        let expect = [
            Entry { at: Duration::ZERO, asks: Asks::Conversation(Conversation::of("a")), output_tokens: Some(9) },
            Entry { at: Duration::ZERO, asks: Asks::Words(300), output_tokens: Some(20) },
            Entry { at: Duration::from_millis(1500), asks: Asks::Conversation(Conversation::of("b")), output_tokens: None },
        ];
        assert_eq!(entries, expect);
        let ms = parse("{\"timestamp\":500,\"input_length\":1}\n{\"timestamp\":750,\"input_length\":1}", Unit::Ms).unwrap();
        assert_eq!(ms[1].at, Duration::from_millis(250));
    }

    #[test]
    fn a_bad_line_is_named_with_what_is_allowed() {
        let good = "{\"timestamp\":5,\"input_length\":1}\n";
        for (bad, why) in [
            ("nonsense", "expected"),
            ("{\"prompt\":\"a\"}", "timestamp"),
            ("{\"timestamp\":\"now\",\"prompt\":\"a\"}", "expected f64 at column 18"),
            ("{\"timestamp\":4,\"prompt\":\"a\"}", "must not fall"),
            ("{\"timestamp\":1e12,\"prompt\":\"a\"}", "--trace-unit"),
            ("{\"timestamp\":6}", "one of prompt, turns, messages, input_length"),
            ("{\"timestamp\":6,\"prompt\":\"a\",\"turns\":[\"b\"]}", "exactly one of"),
            ("{\"timestamp\":6,\"input_length\":0}", "input_length must be 1 or more"),
            ("{\"timestamp\":6,\"input_length\":-3}", "-3"),
            ("{\"timestamp\":6,\"input_length\":3,\"output_length\":0}", "output_length must be 1 or more"),
        ] {
            let error = parse(&format!("{good}{bad}\n{good}"), Unit::S).unwrap_err();
            assert_eq!(error.line, 2, "{bad}");
            assert!(error.reason.contains(why), "{bad}: {}", error.reason);
        }
        assert_eq!(parse("\n", Unit::S).unwrap_err().to_string(), "line 1: the file has no entry");
    }
}
