//! Calls in tags: Qwen3-Coder's, MiniCPM's and GLM's. Values are plain text; the argument's schema says what they stand for.

use std::collections::BTreeSet;

use crate::form::Step;
use crate::json::push_quoted;
use crate::marks::{Match, Word, among};
use crate::offer::{Kinds, Offers, quoted, value_of};
use crate::out::Out;

/// The tags of a family.
#[derive(Debug)]
struct Tags {
    function: &'static str,
    /// Ends the function's name; where nothing does, white space or the next tag.
    name_end: &'static str,
    function_end: &'static str,
    parameter: &'static str,
    /// Ends the parameter's name.
    key_end: &'static str,
    /// Opens the value, where that has a tag of its own.
    value: Option<&'static str>,
    value_end: &'static str,
    /// A line break at either end of a value is not part of it.
    lines: bool,
    /// Closes what was opened around the function.
    wrap_end: Option<&'static str>,
    /// Text with `<`, `&` or a line break stands in a CDATA section.
    cdata: bool,
}

const QWEN_CODER: Tags = Tags {
    function: "<function=",
    name_end: ">",
    function_end: "</function>",
    parameter: "<parameter=",
    key_end: ">",
    value: None,
    value_end: "</parameter>",
    lines: true,
    wrap_end: Some("</tool_call>"),
    cdata: false,
};

const MINI_CPM: Tags = Tags {
    function: "<function name=\"",
    name_end: "\">",
    function_end: "</function>",
    parameter: "<param name=\"",
    key_end: "\">",
    value: None,
    value_end: "</param>",
    lines: true,
    wrap_end: None,
    cdata: true,
};

const GLM: Tags = Tags {
    function: "",
    name_end: "",
    function_end: "</tool_call>",
    parameter: "<arg_key>",
    key_end: "</arg_key>",
    value: Some("<arg_value>"),
    value_end: "</arg_value>",
    lines: false,
    wrap_end: None,
    cdata: false,
};

const CDATA: &str = "<![CDATA[";
const CDATA_END: &str = "]]>";

#[derive(Debug)]
enum Place {
    /// Before the function's tag.
    Open,
    Name(String),
    /// Before a parameter or the function's end.
    Between,
    Key(String),
    /// Before the tag that opens the value.
    BeforeValue(Value),
    Value(Value),
    After,
}

/// One call.
#[derive(Debug)]
pub(crate) struct XmlCall {
    tags: &'static Tags,
    place: Place,
    name: String,
    keys: BTreeSet<String>,
    word: Word,
}

impl XmlCall {
    /// `wrapped`: the mark was `<tool_call>`, not the function's own tag, which the models often begin with.
    pub(crate) fn qwen_coder(wrapped: bool) -> XmlCall {
        XmlCall::new(&QWEN_CODER, if wrapped { Place::Open } else { Place::Name(String::new()) })
    }

    pub(crate) fn mini_cpm() -> XmlCall {
        XmlCall::new(&MINI_CPM, Place::Name(String::new()))
    }

    pub(crate) fn glm() -> XmlCall {
        XmlCall::new(&GLM, Place::Name(String::new()))
    }

    fn new(tags: &'static Tags, place: Place) -> XmlCall {
        XmlCall { tags, place, name: String::new(), keys: BTreeSet::new(), word: Word::default() }
    }

    pub(crate) fn rests(&self) -> bool {
        matches!(self.place, Place::After)
    }

    pub(crate) fn step(&mut self, c: char, offers: &Offers, out: &mut Out) -> Step {
        let tags = self.tags;
        match &mut self.place {
            Place::Open => match self.word.step(c, &[tags.function]) {
                Match::Begins => Step::More,
                Match::Is(_) => self.go(Place::Name(String::new())),
                Match::None => Step::Bad,
            },
            Place::Name(_) if tags.name_end.is_empty() => self.open_name(c, offers, out),
            Place::Name(name) => {
                name.push(c);
                match name.strip_suffix(tags.name_end) {
                    Some(known) if offers.has(known) => {
                        self.name = known.to_owned();
                        out.call(known);
                        self.go(Place::Between)
                    }
                    Some(_) => Step::Bad,
                    // The name, and perhaps a part of what ends it.
                    None if offers.begins(name) => Step::More,
                    None => name.strip_suffix(&tags.name_end[..1]).filter(|known| offers.has(known)).map_or(Step::Bad, |_| Step::More),
                }
            }
            Place::Between => match self.word.step(c, &[tags.parameter, tags.function_end]) {
                Match::Begins => Step::More,
                Match::Is(0) => self.go(Place::Key(String::new())),
                Match::Is(_) => self.function_ends(out),
                Match::None => Step::Bad,
            },
            Place::Key(key) => {
                key.push(c);
                match key.strip_suffix(tags.key_end) {
                    Some(key) => {
                        let key = key.to_owned();
                        self.key_ends(key, offers, out)
                    }
                    None if c == '\n' => Step::Bad,
                    None => Step::More,
                }
            }
            Place::BeforeValue(value) => match self.word.step(c, tags.value.as_slice()) {
                Match::Begins => Step::More,
                Match::Is(_) => {
                    let value = std::mem::take(value);
                    self.go(Place::Value(value))
                }
                Match::None => Step::Bad,
            },
            Place::Value(value) => {
                if value.step(c, tags, out) {
                    self.go(Place::Between)
                } else {
                    Step::More
                }
            }
            Place::After => match self.word.step(c, tags.wrap_end.as_slice()) {
                Match::Begins => Step::More,
                Match::Is(_) => Step::Ends,
                Match::None => Step::Over,
            },
        }
    }

    /// A character of a name that nothing closes: it ends where white space or a tag follows.
    fn open_name(&mut self, c: char, offers: &Offers, out: &mut Out) -> Step {
        let Place::Name(name) = &mut self.place else { return Step::Bad };
        if name.is_empty() && c.is_whitespace() {
            return Step::More;
        }
        if (c == '<' || c.is_whitespace()) && offers.has(name) {
            self.name = std::mem::take(name);
            out.call(&self.name);
            self.place = Place::Between;
            return self.step(c, offers, out);
        }
        name.push(c);
        if offers.begins(name) { Step::More } else { Step::Bad }
    }

    fn go(&mut self, place: Place) -> Step {
        self.place = place;
        Step::More
    }

    fn key_ends(&mut self, key: String, offers: &Offers, out: &mut Out) -> Step {
        let lead = if self.keys.is_empty() { '{' } else { ',' };
        let value = Value::new(offers.kinds(&self.name, &key), self.tags);
        out.arguments(&format!("{lead}{}:", quoted(&key)));
        if value.streams {
            out.arguments("\"");
        }
        if !self.keys.insert(key) {
            return Step::Bad;
        }
        self.go(if self.tags.value.is_some() { Place::BeforeValue(value) } else { Place::Value(value) })
    }

    fn function_ends(&mut self, out: &mut Out) -> Step {
        out.arguments(if self.keys.is_empty() { "{}" } else { "}" });
        out.end_call();
        if self.tags.wrap_end.is_some() { self.go(Place::After) } else { Step::Ends }
    }
}

/// A parameter's value: up to its closing tag.
#[derive(Debug, Default)]
struct Value {
    kinds: Kinds,
    /// Given out as it comes.
    streams: bool,
    /// What came, or of a value that streams what is held back: a line break, the closing tag's beginning.
    kept: String,
    /// Where in `kept` the closing tag may begin.
    tag: Option<usize>,
    begun: bool,
    /// It is a CDATA section; known when the first closing tag comes.
    section: Option<bool>,
}

impl Value {
    fn new(kinds: Kinds, tags: &Tags) -> Value {
        Value { kinds, streams: kinds.only_text() && !tags.cdata, kept: String::new(), tag: None, begun: false, section: None }
    }

    /// Whether the character completes it.
    fn step(&mut self, c: char, tags: &Tags, out: &mut Out) -> bool {
        if !self.begun {
            self.begun = true;
            if c == '\n' && tags.lines {
                return false;
            }
        }
        // The closing tags have `<` in the first place only, so that one beginning is all there is to keep.
        if c == '<' {
            self.tag = Some(self.kept.len());
        }
        self.kept.push(c);
        if let Some(at) = self.tag {
            match among(&self.kept[at..], &[tags.value_end]) {
                Match::Is(_) if self.closes(at, tags) => {
                    self.kept.truncate(at);
                    self.ends(tags, out);
                    return true;
                }
                Match::Begins => {}
                _ => self.tag = None,
            }
        }
        if self.streams {
            self.release(tags.lines, out);
        }
        false
    }

    /// Whether the closing tag at `at` is one, and not within a CDATA section.
    fn closes(&mut self, at: usize, tags: &Tags) -> bool {
        let text = &self.kept[..at];
        let section = *self.section.get_or_insert_with(|| tags.cdata && text.trim_start().starts_with(CDATA));
        !section || text.trim_end().ends_with(CDATA_END)
    }

    /// Gives out all but what may be the closing tag, and a line break before it.
    fn release(&mut self, lines: bool, out: &mut Out) {
        let mut end = self.tag.unwrap_or(self.kept.len());
        if lines && self.kept[..end].ends_with('\n') {
            end -= 1;
        }
        let mut part = String::new();
        self.kept.drain(..end).for_each(|c| push_quoted(&mut part, c));
        self.tag = self.tag.map(|at| at - end);
        out.arguments(&part);
    }

    fn ends(&mut self, tags: &Tags, out: &mut Out) {
        let text = self.kept.strip_suffix('\n').filter(|_| tags.lines).unwrap_or(&self.kept);
        if self.streams {
            let mut part = String::new();
            text.chars().for_each(|c| push_quoted(&mut part, c));
            part.push('"');
            return out.arguments(&part);
        }
        if !tags.cdata {
            return out.arguments(&value_of(text, self.kinds));
        }
        let section = text.trim().strip_prefix(CDATA).and_then(|t| t.strip_suffix(CDATA_END));
        out.arguments(&value_of(&section.map_or_else(|| without_entities(text), str::to_owned), self.kinds));
    }
}

/// XML's five entities become what they stand for; any other `&` stays.
fn without_entities(text: &str) -> String {
    const ENTITIES: [(&str, char); 5] = [("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&apos;", '\''), ("&amp;", '&')];
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let (entity, c) = ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity)).unwrap_or(&("&", '&'));
        plain.push(*c);
        rest = &rest[entity.len()..];
    }
    plain + rest
}
