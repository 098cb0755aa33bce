//! A template's texts and tags, and the tokens of a tag.

/// What a tag is made of.
#[derive(Debug, PartialEq)]
pub(super) enum Token<'s> {
    Name(&'s str),
    /// Digits without underscores.
    Number(String),
    /// What the literal stands for.
    Text(String),
    Sign(&'s str),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Print,
    Block,
}

#[derive(Debug)]
pub(super) struct Tag<'s> {
    pub(super) kind: Kind,
    /// With its mark for white space.
    pub(super) open: &'s str,
    pub(super) inner: &'s str,
    pub(super) close: &'s str,
    /// None when a character is no token.
    pub(super) tokens: Option<Vec<Token<'s>>>,
}

#[derive(Debug)]
pub(super) enum Piece<'s> {
    /// Plain text, comments and raw blocks.
    Text(&'s str),
    Tag(Tag<'s>),
}

impl<'s> Piece<'s> {
    /// The name that this tag gives to a new namespace.
    pub(super) fn namespace(&self) -> Option<&'s str> {
        let Piece::Tag(Tag { kind: Kind::Block, tokens: Some(tokens), .. }) = self else { return None };
        match tokens.as_slice() {
            [Token::Name("set"), Token::Name(name), Token::Sign("="), Token::Name("namespace"), ..] => Some(name),
            _ => None,
        }
    }
}

pub(super) fn pieces(source: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while let Some(found) = source[at..].find('{') {
        let start = at + found;
        let rest = &source[start..];
        let kind = match rest.as_bytes().get(1) {
            Some(b'{') => Kind::Print,
            Some(b'%') => Kind::Block,
            Some(b'#') => {
                at = rest[2..].find("#}").map_or(source.len(), |end| start + 2 + end + 2);
                continue;
            }
            _ => {
                at = start + 1;
                continue;
            }
        };
        let (tag, len) = tag(rest, kind).unwrap_or_else(|| {
            // It does not end.
            let (open, inner) = rest.split_at(2);
            (Tag { kind, open, inner, close: "", tokens: None }, rest.len())
        });
        let raw = kind == Kind::Block && tag.tokens.as_deref() == Some(&[Token::Name("raw")]);
        if raw {
            // As it is, to the end of the tag that closes it.
            at = end_of_raw(source, start + len);
            continue;
        }
        out.extend([Piece::Text(&source[from..start]), Piece::Tag(tag)]);
        at = start + len;
        from = at;
    }
    out.push(Piece::Text(&source[from..]));
    out
}

fn end_of_raw(source: &str, mut at: usize) -> usize {
    while let Some(found) = source[at..].find("{%") {
        let start = at + found + 2;
        let word = source[start..].trim_start_matches(['-', '+']).trim_start();
        if let Some(rest) = word.strip_prefix("endraw") {
            let close = rest.find("%}").map_or(0, |end| end + 2);
            return source.len() - rest.len() + close;
        }
        at = start;
    }
    source.len()
}

/// The tag at the start of `rest`, and its length. None when it does not end.
fn tag(rest: &str, kind: Kind) -> Option<(Tag<'_>, usize)> {
    let marked = matches!(rest.as_bytes().get(2), Some(b'-' | b'+'));
    let begin = 2 + usize::from(marked);
    let mut lexer = Lexer { rest, at: begin, open: 0, tokens: Some(Vec::new()) };
    let (inner_end, end) = lexer.run(kind)?;
    let tag = Tag { kind, open: &rest[..begin], inner: &rest[begin..inner_end], close: &rest[inner_end..end], tokens: lexer.tokens };
    Some((tag, end))
}

struct Lexer<'s> {
    rest: &'s str,
    at: usize,
    /// Brackets that are open: within them nothing ends a tag.
    open: usize,
    tokens: Option<Vec<Token<'s>>>,
}

const SIGNS: [&str; 25] = ["//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ","];

impl<'s> Lexer<'s> {
    /// Where the tag's inside ends, and where the tag ends.
    fn run(&mut self, kind: Kind) -> Option<(usize, usize)> {
        let close = if kind == Kind::Print { "}}" } else { "%}" };
        loop {
            let text: &'s str = &self.rest[self.at..];
            let first = text.chars().next()?;
            if self.open == 0 {
                let marks: &[char] = if kind == Kind::Print { &['-'] } else { &['-', '+'] };
                let marked = text.strip_prefix(marks).unwrap_or(text);
                if marked.starts_with(close) {
                    return Some((self.at, self.at + (text.len() - marked.len()) + close.len()));
                }
            }
            let len = match first {
                c if c.is_whitespace() => c.len_utf8(),
                '"' | '\'' => self.text(text, first)?,
                '0'..='9' => self.number(text),
                c if c == '_' || c.is_ascii_alphabetic() => {
                    let len = text.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(text.len());
                    self.push(Token::Name(&text[..len]));
                    len
                }
                c => match SIGNS.iter().find(|s| text.starts_with(**s)) {
                    Some(sign) => {
                        match *sign {
                            "(" | "[" | "{" => self.open += 1,
                            ")" | "]" | "}" => self.open = self.open.saturating_sub(1),
                            _ => {}
                        }
                        self.push(Token::Sign(&text[..sign.len()]));
                        sign.len()
                    }
                    None => {
                        self.tokens = None;
                        c.len_utf8()
                    }
                },
            };
            self.at += len;
        }
    }

    fn push(&mut self, token: Token<'s>) {
        if let Some(tokens) = &mut self.tokens {
            tokens.push(token);
        }
    }

    fn text(&mut self, text: &str, quote: char) -> Option<usize> {
        let mut escaped = false;
        for (i, c) in text.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == quote => {
                    match unescape(&text[1..i]) {
                        Some(value) => self.push(Token::Text(value)),
                        None => self.tokens = None,
                    }
                    return Some(i + 1);
                }
                _ => {}
            }
        }
        None
    }

    fn number(&mut self, text: &str) -> usize {
        let digits = |s: &str| s.find(|c: char| c != '_' && !c.is_ascii_digit()).unwrap_or(s.len());
        let mut len = digits(text);
        let radix = text.get(1..2).filter(|_| text.starts_with('0')).is_some_and(|c| "xXoObB".contains(c));
        let after_dot = self.tokens.as_deref().and_then(<[_]>::last) == Some(&Token::Sign("."));
        if radix {
            len = 2 + text[2..].find(|c: char| c != '_' && !c.is_ascii_hexdigit()).unwrap_or(text.len() - 2);
        } else if !after_dot {
            let is_digit = |s: &str| s.starts_with(|c: char| c.is_ascii_digit());
            if let Some(fraction) = text[len..].strip_prefix('.').filter(|f| is_digit(f)) {
                len += 1 + digits(fraction);
            }
            if let Some(exponent) = text[len..].strip_prefix(['e', 'E']) {
                let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if is_digit(unsigned) {
                    len += 1 + (exponent.len() - unsigned.len()) + digits(unsigned);
                }
            }
        }
        self.push(Token::Number(text[..len].replace('_', "")));
        len
    }
}

/// Python's escapes. None for one that is cut, and for `\N{…}`.
fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let escaped = match chars.next()? {
            '\n' => continue,
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            c @ ('\\' | '\'' | '"') => c,
            'x' => take_hex(&mut chars, 2)?,
            'u' => take_hex(&mut chars, 4)?,
            'U' => take_hex(&mut chars, 8)?,
            'N' => return None,
            c @ '0'..='7' => {
                let mut n = c.to_digit(8)?;
                for _ in 0..2 {
                    let Some(digit) = chars.as_str().chars().next().and_then(|c| c.to_digit(8)) else { break };
                    chars.next();
                    n = n * 8 + digit;
                }
                char::from_u32(n)?
            }
            c => {
                out.push('\\');
                c
            }
        };
        out.push(escaped);
    }
    Some(out)
}

fn take_hex(chars: &mut std::str::Chars<'_>, n: usize) -> Option<char> {
    let rest = chars.as_str();
    let digits = rest.get(..n)?;
    *chars = rest[n..].chars();
    u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)
}
