//! Server-sent events out of a byte stream, as the WHATWG's HTML standard cuts them; only the `data` field matters here.

use std::io::{self, BufRead, Read};

/// A line longer than this is no chunk of a chat.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// Reads events one by one and returns as soon as one is whole.
pub struct Events<R> {
    reader: R,
    line: Vec<u8>,
}

impl<R: BufRead> Events<R> {
    pub fn new(reader: R) -> Events<R> {
        Events { reader, line: Vec::new() }
    }

    /// The next event's data, its lines joined by `\n`; None at the end of the stream. An event that the end cuts is no event.
    pub fn next_data(&mut self) -> io::Result<Option<String>> {
        let mut data: Option<String> = None;
        loop {
            self.line.clear();
            let read = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 == LINE_BYTES_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line of the stream is over 4 MiB"));
            }
            let line = std::str::from_utf8(&self.line)
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a line of the stream is not UTF-8"))?
                .trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                if data.is_some() {
                    return Ok(data);
                }
            } else if let Some(value) = line.strip_prefix("data:") {
                let value = value.strip_prefix(' ').unwrap_or(value);
                match &mut data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => data = Some(value.to_owned()),
                }
            }
            // Comments (pings), `event:`, `id:` and `retry:` say nothing that is measured.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stream: &str, expect: &[&str]) {
        let mut events = Events::new(stream.as_bytes());
        let mut got = Vec::new();
        while let Some(data) = events.next_data().unwrap() {
            got.push(data);
        }
        assert_eq!(got, expect, "{stream:?}");
    }

    #[test]
    fn events_are_cut_at_empty_lines() {
        check("", &[]);
        check("data: a\n\ndata:b\n\n", &["a", "b"]);
        check("data: a\r\n\r\ndata: [DONE]\r\n\r\n", &["a", "[DONE]"]);
        check("data: a\ndata: b\n\n", &["a\nb"]);
        check(": ping\n\nevent: error\ndata: {}\nid: 1\n\n\n\n", &["{}"]);
        check("data:\n\n", &[""]);
        check("data: whole\n\ndata: cut\n", &["whole"]);
        check("data: whole\n\ndata: cu", &["whole"]);
    }

    #[test]
    fn what_is_not_text_is_an_error() {
        let error = Events::new(&b"data: \xff\n\n"[..]).next_data().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
