//! Expressions, read by jinja2's grammar (`jinja2/parser.py`) and written so that minijinja does what Python would.
//!
//! What is written binds as tightly as a name: a call, or something in brackets.

use super::lex::Token;
use super::methods;

/// Brackets within brackets, as many as minijinja itself reads with room to spare for the calls that are put around.
const DEPTH_MAX: usize = 60;

/// Arguments of one call that adds or joins.
const TERMS_MAX: usize = 100;

/// Sides of one `or`.
const SIDES_MAX: usize = 200;

/// What an expression becomes; None where the tokens are no expression.
type Said = Option<String>;

pub(super) struct Parser<'t, 's> {
    tokens: &'t [Token<'s>],
    at: usize,
    depth: usize,
    /// Names that hold namespaces: those have no methods.
    namespaces: &'t [&'s str],
}

/// Whether only the truth of the expression counts.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Want {
    Truth,
    Value,
}

impl<'t, 's> Parser<'t, 's> {
    pub(super) fn new(tokens: &'t [Token<'s>], namespaces: &'t [&'s str]) -> Self {
        Self { tokens, at: 0, depth: 0, namespaces }
    }

    pub(super) fn done(&self) -> bool {
        self.at == self.tokens.len()
    }

    pub(super) fn next(&mut self) -> Option<&'t Token<'s>> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        Some(token)
    }

    fn peek(&self) -> Option<&'t Token<'s>> {
        self.tokens.get(self.at)
    }

    pub(super) fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(s)) if *s == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(n)) if *n == word)
    }

    pub(super) fn sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        self.at += usize::from(found);
        found
    }

    pub(super) fn word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    pub(super) fn name(&mut self) -> Option<&'s str> {
        match self.next()? {
            Token::Name(name) => Some(name),
            _ => None,
        }
    }

    /// Expressions with commas between them are a tuple.
    pub(super) fn tuple(&mut self, want: Want) -> Said {
        let first = self.expression(want)?;
        if !self.is_sign(",") {
            return Some(first);
        }
        let mut items = vec![first];
        while self.sign(",") {
            let ends = self.done() || [")", "]", "="].iter().any(|s| self.is_sign(s)) || self.is_word("recursive");
            if ends {
                break;
            }
            items.push(self.expression(Want::Value)?);
        }
        Some(call("__tuple", &items))
    }

    pub(super) fn expression(&mut self, want: Want) -> Said {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut said = self.or(want)?;
        while self.word("if") {
            let test = self.or(Want::Truth)?;
            said = if self.word("else") {
                let otherwise = self.expression(want)?;
                format!("({said} if {test} else {otherwise})")
            } else {
                format!("({said} if {test})")
            };
        }
        self.depth -= 1;
        Some(said)
    }

    pub(super) fn or(&mut self, want: Want) -> Said {
        let mut sides = vec![self.and(want)?];
        while self.word("or") {
            sides.push(self.and(want)?);
        }
        between(&sides, " or ")
    }

    /// Python's `a and b` is a itself where that is false. It is kept aside, so that it is asked for once.
    fn and(&mut self, want: Want) -> Said {
        let mut sides = vec![self.not()?];
        while self.word("and") {
            sides.push(self.not()?);
        }
        if want == Want::Truth {
            return between(&sides, " and ");
        }
        sides.into_iter().reduce(|a, b| format!("({b} if __keep({a}) else __kept())"))
    }

    fn not(&mut self) -> Said {
        // Not a call of itself for each `not`: there may be many.
        let mut times = 0;
        while self.word("not") {
            times += 1;
        }
        let said = self.compare()?;
        Some(match times {
            0 => said,
            n if n % 2 == 1 => format!("(not {said})"),
            _ => format!("(not (not {said}))"),
        })
    }

    fn compare(&mut self) -> Said {
        let mut left = self.sum()?;
        let mut links = Vec::new();
        loop {
            let negated = self.is_word("not") && matches!(self.tokens.get(self.at + 1), Some(Token::Name("in")));
            self.at += usize::from(negated);
            let function = match self.peek() {
                Some(Token::Name("in")) => "__in",
                Some(Token::Sign("<")) => "__lt",
                Some(Token::Sign("<=")) => "__le",
                Some(Token::Sign(">")) => "__gt",
                Some(Token::Sign(">=")) => "__ge",
                Some(Token::Sign("==")) => "__eq",
                Some(Token::Sign("!=")) => "__ne",
                _ => break,
            };
            self.at += 1;
            let right = self.sum()?;
            let said = call(function, &[left, right.clone()]);
            links.push(if negated { format!("(not {said})") } else { said });
            left = right;
        }
        if links.is_empty() { Some(left) } else { between(&links, " and ") }
    }

    fn sum(&mut self) -> Said {
        let mut terms = vec![self.joined()?];
        loop {
            if self.sign("+") {
                terms.push(self.joined()?);
            } else if self.sign("-") {
                let left = call_over("__add", terms);
                terms = vec![call("__sub", &[left, self.joined()?])];
            } else {
                return Some(call_over("__add", terms));
            }
        }
    }

    fn joined(&mut self) -> Said {
        let mut parts = vec![self.product()?];
        while self.sign("~") {
            parts.push(self.product()?);
        }
        Some(call_over("__join", parts))
    }

    fn product(&mut self) -> Said {
        let mut left = self.power()?;
        loop {
            let function = match self.peek() {
                Some(Token::Sign("*")) => "__mul",
                Some(Token::Sign("/")) => "__div",
                Some(Token::Sign("//")) => "__floordiv",
                Some(Token::Sign("%")) => "__mod",
                _ => return Some(left),
            };
            self.at += 1;
            left = call(function, &[left, self.power()?]);
        }
    }

    fn power(&mut self) -> Said {
        let mut left = self.unary(true)?;
        while self.sign("**") {
            left = call("__pow", &[left, self.unary(true)?]);
        }
        Some(left)
    }

    fn unary(&mut self, filters: bool) -> Said {
        let signed = ["-", "+"].into_iter().find(|s| self.sign(s));
        let said = match signed {
            None => self.primary()?,
            Some(sign) => {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return None;
                }
                let said = self.unary(false)?;
                self.depth -= 1;
                match sign {
                    "-" if said.bytes().all(|b| b.is_ascii_digit()) => format!("(-{said})"),
                    "-" => call("__neg", &[said]),
                    _ => call("__pos", &[said]),
                }
            }
        };
        let said = self.postfix(said)?;
        if filters { self.filtered(said) } else { Some(said) }
    }

    fn primary(&mut self) -> Said {
        match self.next()? {
            Token::Name(name) => Some(match *name {
                "True" => "true".into(),
                "False" => "false".into(),
                "None" => "none".into(),
                name => name.to_owned(),
            }),
            Token::Number(digits) => Some(digits.clone()),
            Token::Text(text) => {
                let mut text = text.clone();
                while let Some(Token::Text(more)) = self.peek() {
                    text += more;
                    self.at += 1;
                }
                Some(quoted(&text))
            }
            Token::Sign("(") => {
                if self.sign(")") {
                    return Some("__tuple()".into());
                }
                let said = self.tuple(Want::Value)?;
                self.sign(")").then_some(said)
            }
            Token::Sign("[") => {
                let items = self.list("]", |p| p.expression(Want::Value))?;
                Some(format!("[{}]", items.join(", ")))
            }
            Token::Sign("{") => {
                let items = self.list("}", |p| {
                    let key = p.expression(Want::Value)?;
                    p.sign(":").then_some(())?;
                    Some(format!("{key}: {}", p.expression(Want::Value)?))
                })?;
                Some(format!("{{{}}}", items.join(", ")))
            }
            Token::Sign(_) => None,
        }
    }

    fn list(&mut self, close: &str, one: impl Fn(&mut Self) -> Said) -> Option<Vec<String>> {
        let mut items = Vec::new();
        while !self.sign(close) {
            items.push(one(self)?);
            if !self.sign(",") {
                self.sign(close).then_some(())?;
                break;
            }
        }
        Some(items)
    }

    fn postfix(&mut self, mut said: String) -> Said {
        loop {
            if self.sign(".") {
                said = match self.next()? {
                    Token::Number(index) => format!("{said}[{index}]"),
                    Token::Name(name) if self.is_sign("(") || !methods::is_one(name) || self.namespaces.contains(&said.as_str()) => format!("{said}.{name}"),
                    Token::Name(name) => call("__attr", &[said, quoted(name)]),
                    _ => return None,
                };
            } else if self.sign("[") {
                said = self.subscript(said)?;
            } else if self.sign("(") {
                said = format!("{said}({})", self.arguments()?);
            } else {
                return Some(said);
            }
        }
    }

    fn subscript(&mut self, said: String) -> Said {
        let mut bounds = ["none".to_owned(), "none".to_owned(), "none".to_owned()];
        let mut colons = 0;
        loop {
            if self.sign("]") {
                break;
            } else if self.sign(":") {
                colons += 1;
            } else if let Some(bound) = bounds.get_mut(colons) {
                *bound = self.tuple(Want::Value)?;
            } else {
                return None;
            }
        }
        let [start, stop, step] = bounds;
        match colons {
            0 => Some(call("__item", &[said, start])),
            1 | 2 => Some(call("__slice", &[said, start, stop, step])),
            _ => None,
        }
    }

    /// After the opening bracket, to the closing one.
    pub(super) fn arguments(&mut self) -> Said {
        let items = self.list(")", |p| {
            if p.sign("**") {
                return Some(format!("**{}", p.expression(Want::Value)?));
            }
            if p.sign("*") {
                return Some(format!("*{}", p.expression(Want::Value)?));
            }
            match (p.peek(), p.tokens.get(p.at + 1)) {
                (Some(Token::Name(name)), Some(Token::Sign("="))) => {
                    p.at += 2;
                    Some(format!("{name}={}", p.expression(Want::Value)?))
                }
                _ => p.expression(Want::Value),
            }
        })?;
        Some(items.join(", "))
    }

    /// Filters, tests and calls after them.
    fn filtered(&mut self, mut said: String) -> Said {
        loop {
            if self.sign("|") {
                let name = self.dotted()?;
                let arguments = if self.sign("(") { format!("({})", self.arguments()?) } else { String::new() };
                said = format!("({said}|{name}{arguments})");
            } else if self.word("is") {
                let not = if self.word("not") { "not " } else { "" };
                let name = self.dotted()?;
                let arguments = if self.sign("(") {
                    format!("({})", self.arguments()?)
                } else if self.test_has_argument() {
                    let argument = self.primary()?;
                    format!("({})", self.postfix(argument)?)
                } else {
                    String::new()
                };
                said = format!("({said} is {not}{name}{arguments})");
            } else if self.sign("(") {
                said = format!("{said}({})", self.arguments()?);
            } else {
                return Some(said);
            }
        }
    }

    fn test_has_argument(&self) -> bool {
        match self.peek() {
            Some(Token::Name(name)) => !["else", "or", "and", "is", "if", "in", "not", "recursive"].contains(name),
            Some(Token::Number(_) | Token::Text(_)) => true,
            Some(Token::Sign(sign)) => ["[", "{"].contains(sign),
            None => false,
        }
    }

    pub(super) fn dotted(&mut self) -> Said {
        let mut name = self.name()?.to_owned();
        while self.sign(".") {
            name += ".";
            name += self.name()?;
        }
        Some(name)
    }
}

fn call(function: &str, arguments: &[String]) -> String {
    format!("{function}({})", arguments.join(", "))
}

/// None where there are more sides than minijinja's recursion over them should see.
fn between(sides: &[String], word: &str) -> Said {
    match sides {
        [only] => Some(only.clone()),
        sides => (sides.len() <= SIDES_MAX).then(|| format!("({})", sides.join(word))),
    }
}

/// A call with all of them, from the left: minijinja's calls have a bound.
fn call_over(function: &str, terms: Vec<String>) -> String {
    let mut said = Vec::new();
    for term in terms {
        if said.len() == TERMS_MAX {
            said = vec![call(function, &said)];
        }
        said.push(term);
    }
    if said.len() == 1 { said.remove(0) } else { call(function, &said) }
}

/// A literal of minijinja's.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
