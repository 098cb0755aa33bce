//! Server-sent events out of a byte stream, as the WHATWG's HTML standard cuts them; only the `data` field matters here. Pure.

use std::collections::VecDeque;

/// A line longer than this is no chunk of a chat.
const LINE_BYTES_MAX: usize = 4 << 20;

/// Takes bytes as they come and gives whole events. An event that the end of the stream cuts is no event.
#[derive(Default)]
pub struct Events {
    line: Vec<u8>,
    /// A `\n` would belong to the `\r` before it.
    after_return: bool,
    /// Lines of the event that is not whole yet, joined by `\n`.
    data: Option<String>,
    whole: VecDeque<String>,
    begun: bool,
}

impl Events {
    /// Lines end with `\n`, `\r\n` or `\r`.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|&b| b == b'\n' || b == b'\r');
            self.line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            if self.line.len() > LINE_BYTES_MAX {
                return Err("a line of the stream is over 4 MiB".into());
            }
            let Some(end) = end else { break };
            self.after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            self.end_line()?;
        }
        Ok(())
    }

    /// The oldest whole event's data.
    pub fn next_data(&mut self) -> Option<String> {
        self.whole.pop_front()
    }

    fn end_line(&mut self) -> Result<(), String> {
        let line = std::str::from_utf8(&self.line).map_err(|_| "a line of the stream is not UTF-8")?;
        // A byte order mark may begin a stream.
        let line = if self.begun { line } else { line.strip_prefix('\u{feff}').unwrap_or(line) };
        self.begun = true;
        if line.is_empty() {
            self.whole.extend(self.data.take());
        } else if let Some(value) = line.strip_prefix("data:") {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            }
        }
        // Comments (pings), `event:`, `id:` and `retry:` say nothing that is measured.
        self.line.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the stream is cut on its way.
    fn check(stream: &str, expect: &[&str]) {
        for step in 1..=stream.len().max(1) {
            let mut events = Events::default();
            stream.as_bytes().chunks(step).for_each(|part| events.take(part).unwrap());
            let got: Vec<String> = std::iter::from_fn(|| events.next_data()).collect();
            assert_eq!(got, expect, "{stream:?} in parts of {step}");
        }
    }

    #[test]
    fn events_are_cut_at_empty_lines() {
        check("", &[]);
        check("data: a\n\ndata:b\n\n", &["a", "b"]);
        check("data: a\r\n\r\ndata: [DONE]\r\n\r\n", &["a", "[DONE]"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check("data: a\ndata: b\n\n", &["a\nb"]);
        check(": ping\n\nevent: error\ndata: {}\nid: 1\n\n\n\n", &["{}"]);
        check(":\r\n\r\n: ping\r\n\r\ndata: a\r\n\r\n", &["a"]);
        check("data:\n\n", &[""]);
        check("data: whole\n\ndata: cut\n", &["whole"]);
        check("data: whole\n\ndata: cu", &["whole"]);
        check("\u{feff}data: größer\n\n", &["größer"]);
    }

    #[test]
    fn what_is_no_line_of_text_is_an_error() {
        assert!(Events::default().take(b"data: \xff\n\n").unwrap_err().contains("UTF-8"));
        let long = vec![b'a'; LINE_BYTES_MAX + 1];
        assert!(Events::default().take(&long).unwrap_err().contains("4 MiB"));
    }
}
