//! A JSON value, character by character: whether what came is still the beginning of one.

/// No JSON begins like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bad;

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Value,
    /// Behind `[`.
    ValueOrEnd,
    /// Behind `{`.
    KeyOrEnd,
    /// Behind a comma in an object.
    Key,
    Colon,
    CommaOrEnd,
    Text,
    Escape,
    /// Hexadecimal digits that `\u` still lacks.
    Hex(u8),
    /// The rest of `true`, `false` or `null`.
    Word(&'static str),
    Number,
    Done,
}

/// An automaton with a stack. Control characters within strings pass: see [`push`].
#[derive(Debug)]
pub(crate) struct Json {
    at: At,
    /// Open containers; an object is true.
    open: Vec<bool>,
    /// The string being read is a key.
    key: bool,
    number: String,
    /// The code unit of the `\u` escape being read, and a leading surrogate that waits for its second half.
    unit: u32,
    surrogate: bool,
}

/// Containers within containers; readers of JSON refuse 128.
const DEPTH_MAX: usize = 100;

impl Json {
    pub(crate) fn new() -> Json {
        Json { at: At::Value, open: Vec::new(), key: false, number: String::new(), unit: 0, surrogate: false }
    }

    pub(crate) fn at(&self) -> At {
        self.at
    }

    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn done(&self) -> bool {
        self.at == At::Done
    }

    /// The next character lies within a string, the closing quote included.
    pub(crate) fn in_text(&self) -> bool {
        matches!(self.at, At::Text | At::Escape | At::Hex(_))
    }

    pub(crate) fn step(&mut self, c: char) -> Result<(), Bad> {
        if self.at == At::Number {
            if matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E') {
                self.number.push(c);
                return Ok(());
            }
            // Its grammar and its range are serde's, as they will be for whoever reads the arguments.
            serde_json::from_str::<serde_json::Number>(&self.number).map_err(|_| Bad)?;
            self.number.clear();
            self.value_ends();
        }
        match self.at {
            At::Text => self.text(c)?,
            At::Escape => self.escape(c)?,
            At::Hex(left) => self.hex(c, left)?,
            At::Word(rest) => {
                let rest = rest.strip_prefix(c).ok_or(Bad)?;
                self.at = At::Word(rest);
                if rest.is_empty() {
                    self.value_ends();
                }
            }
            _ if matches!(c, ' ' | '\t' | '\n' | '\r') => {}
            At::Value => self.value_begins(c)?,
            At::ValueOrEnd if c == ']' => self.close(false)?,
            At::ValueOrEnd => self.value_begins(c)?,
            At::KeyOrEnd if c == '}' => self.close(true)?,
            At::KeyOrEnd | At::Key if c == '"' => (self.at, self.key) = (At::Text, true),
            At::Colon if c == ':' => self.at = At::Value,
            At::CommaOrEnd if c == ',' => self.at = if self.open.last() == Some(&true) { At::Key } else { At::Value },
            At::CommaOrEnd if c == '}' => self.close(true)?,
            At::CommaOrEnd if c == ']' => self.close(false)?,
            _ => return Err(Bad),
        }
        Ok(())
    }

    fn value_begins(&mut self, c: char) -> Result<(), Bad> {
        self.at = match c {
            '{' | '[' if self.open.len() == DEPTH_MAX => return Err(Bad),
            '{' => At::KeyOrEnd,
            '[' => At::ValueOrEnd,
            '"' => At::Text,
            't' => At::Word("rue"),
            'f' => At::Word("alse"),
            'n' => At::Word("ull"),
            '-' | '0'..='9' => At::Number,
            _ => return Err(Bad),
        };
        match c {
            '{' | '[' => self.open.push(c == '{'),
            '"' => self.key = false,
            _ if self.at == At::Number => self.number.push(c),
            _ => {}
        }
        Ok(())
    }

    fn value_ends(&mut self) {
        self.at = if self.open.is_empty() { At::Done } else { At::CommaOrEnd };
    }

    fn close(&mut self, object: bool) -> Result<(), Bad> {
        if self.open.pop() != Some(object) {
            return Err(Bad);
        }
        self.value_ends();
        Ok(())
    }

    fn text(&mut self, c: char) -> Result<(), Bad> {
        if self.surrogate && c != '\\' {
            return Err(Bad);
        }
        match c {
            '\\' => self.at = At::Escape,
            '"' if self.key => self.at = At::Colon,
            '"' => self.value_ends(),
            _ => {}
        }
        Ok(())
    }

    fn escape(&mut self, c: char) -> Result<(), Bad> {
        if self.surrogate && c != 'u' {
            return Err(Bad);
        }
        self.at = match c {
            '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => At::Text,
            'u' => At::Hex(4),
            _ => return Err(Bad),
        };
        self.unit = 0;
        Ok(())
    }

    fn hex(&mut self, c: char, left: u8) -> Result<(), Bad> {
        self.unit = self.unit * 16 + c.to_digit(16).ok_or(Bad)?;
        self.at = if left == 1 { At::Text } else { At::Hex(left - 1) };
        if left == 1 {
            let (first, second) = ((0xd800..0xdc00).contains(&self.unit), (0xdc00..0xe000).contains(&self.unit));
            if second != self.surrogate {
                return Err(Bad);
            }
            self.surrogate = first;
        }
        Ok(())
    }
}

/// Adds a character of a JSON text; a control character within a string, which models write and JSON forbids, is escaped.
pub(crate) fn push(text: &mut String, c: char, in_text: bool) {
    if in_text && c < ' ' {
        match c {
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            _ => text.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    } else {
        text.push(c);
    }
}

/// Adds a character of a plain text that becomes a JSON string.
pub(crate) fn push_quoted(text: &mut String, c: char) {
    match c {
        '"' | '\\' => text.extend(['\\', c]),
        _ => push(text, c, true),
    }
}
