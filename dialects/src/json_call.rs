//! Calls whose arguments are JSON: Hermes, Llama 3, and both of Mistral's ways.

use crate::form::Step;
use crate::json::{At, Json, push};
use crate::marks::{Match, Word};
use crate::offer::Offers;
use crate::out::Out;

/// What stands around the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    Hermes,
    Llama3,
    Mistral,
}

#[derive(Debug)]
enum Place {
    /// Before the first object, or Mistral's array or name.
    Before,
    /// Within Mistral's array, or behind Llama's semicolon: before an object.
    Next,
    Object(Object),
    /// Mistral's name, up to `[` or `{`.
    Name(String),
    /// `[ARGS]` or `[CALL_ID]`.
    Mark(String),
    /// The id behind `[CALL_ID]`.
    Id,
    /// Behind `[ARGS]`.
    BeforeArguments,
    Arguments(Json),
    After,
}

/// The calls behind one mark.
#[derive(Debug)]
pub(crate) struct JsonCalls {
    around: Around,
    place: Place,
    name: String,
    word: Word,
}

impl JsonCalls {
    fn new(around: Around, place: Place) -> JsonCalls {
        JsonCalls { around, place, name: String::new(), word: Word::default() }
    }

    pub(crate) fn hermes() -> JsonCalls {
        JsonCalls::new(Around::Hermes, Place::Before)
    }

    /// `brace`: the mark was the object's own brace.
    pub(crate) fn llama3(brace: bool) -> JsonCalls {
        JsonCalls::new(Around::Llama3, if brace { Place::Object(Object::new(true)) } else { Place::Before })
    }

    pub(crate) fn mistral() -> JsonCalls {
        JsonCalls::new(Around::Mistral, Place::Before)
    }

    pub(crate) fn rests(&self) -> bool {
        matches!(self.place, Place::After | Place::Next)
    }

    pub(crate) fn step(&mut self, c: char, offers: &Offers, out: &mut Out) -> Step {
        match &mut self.place {
            Place::Before => self.before(c, offers),
            Place::Next => match c {
                '{' => self.go(Place::Object(Object::new(self.around == Around::Llama3))),
                _ if c.is_whitespace() => Step::More,
                _ => Step::Over,
            },
            Place::Object(object) => match object.step(c, offers, out) {
                Step::Ends => self.go(Place::After),
                step => step,
            },
            Place::Name(name) => match c {
                '[' | '{' if !offers.has(name) => Step::Bad,
                '[' => {
                    self.name = std::mem::take(name);
                    self.go(Place::Mark("[".to_owned()))
                }
                '{' => {
                    out.call(name);
                    self.arguments(c, out)
                }
                _ => {
                    name.push(c);
                    if offers.begins(name) { Step::More } else { Step::Bad }
                }
            },
            Place::Mark(mark) => {
                mark.push(c);
                match crate::marks::among(mark, &["[ARGS]", "[CALL_ID]"]) {
                    Match::Begins => Step::More,
                    Match::Is(0) => {
                        out.call(&self.name);
                        self.go(Place::BeforeArguments)
                    }
                    Match::Is(_) => self.go(Place::Id),
                    Match::None => Step::Bad,
                }
            }
            Place::Id => match c {
                '[' => self.go(Place::Mark("[".to_owned())),
                _ if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') => Step::More,
                _ => Step::Bad,
            },
            Place::BeforeArguments if c.is_whitespace() => Step::More,
            Place::BeforeArguments if c == '{' => self.arguments(c, out),
            Place::BeforeArguments => Step::Bad,
            Place::Arguments(json) => {
                let step = stream(json, c, out);
                if step == Step::Ends {
                    out.end_call();
                    // What may follow is another mark, which is nothing of this call's.
                    return Step::Ends;
                }
                step
            }
            Place::After => self.after(c),
        }
    }

    fn go(&mut self, place: Place) -> Step {
        self.place = place;
        Step::More
    }

    fn arguments(&mut self, c: char, out: &mut Out) -> Step {
        let mut json = Json::new();
        let step = stream(&mut json, c, out);
        self.place = Place::Arguments(json);
        step
    }

    fn before(&mut self, c: char, offers: &Offers) -> Step {
        match (self.around, c) {
            _ if c.is_whitespace() => Step::More,
            (Around::Mistral, '[') => self.go(Place::Next),
            (_, '{') => self.go(Place::Object(Object::new(self.around == Around::Llama3))),
            (Around::Mistral, _) if offers.begins(c.encode_utf8(&mut [0; 4])) => self.go(Place::Name(c.to_string())),
            _ => Step::Bad,
        }
    }

    fn after(&mut self, c: char) -> Step {
        let words: &[&str] = match self.around {
            Around::Hermes => &["</tool_call>"],
            Around::Llama3 => &[";"],
            Around::Mistral => &[",", "]"],
        };
        match (self.around, self.word.step(c, words)) {
            (_, Match::Begins) => Step::More,
            (_, Match::None) => Step::Over,
            (Around::Hermes, _) | (Around::Mistral, Match::Is(1)) => Step::Ends,
            _ => self.go(Place::Next),
        }
    }
}

/// Gives a character of the arguments out.
fn stream(json: &mut Json, c: char, out: &mut Out) -> Step {
    let mut part = String::new();
    push(&mut part, c, json.in_text());
    if json.step(c).is_err() {
        return Step::Bad;
    }
    out.arguments(&part);
    if json.done() { Step::Ends } else { Step::More }
}

/// What the value at hand means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Name,
    Arguments,
    Other,
}

/// `{"name": …, "arguments": {…}}`. Keys may come in either order; `parameters` is another word for `arguments`.
#[derive(Debug)]
struct Object {
    json: Json,
    /// No other keys than those a call has: an object that no mark announced is a call only then.
    strict: bool,
    key: Key,
    /// The key, the name, or arguments that came as a string.
    token: String,
    name: Option<String>,
    /// Arguments were seen; kept here while the name is not known.
    arguments: Option<String>,
}

impl Object {
    /// Its opening brace has been read.
    fn new(strict: bool) -> Object {
        let mut json = Json::new();
        // A brace begins a value: this cannot fail.
        let _ = json.step('{');
        Object { json, strict, key: Key::Other, token: String::new(), name: None, arguments: None }
    }

    fn step(&mut self, c: char, offers: &Offers, out: &mut Out) -> Step {
        let (was, deep, in_text) = (self.json.at(), self.json.depth() > 1, self.json.in_text());
        if self.json.step(c).is_err() {
            return Step::Bad;
        }
        if self.json.done() {
            return self.end(out);
        }
        let now = self.json.at();
        if deep || self.json.depth() > 1 {
            if self.key == Key::Arguments {
                return self.argument(c, was == At::Value && !deep, in_text, out);
            }
            return if self.key == Key::Name { Step::Bad } else { Step::More };
        }
        match was {
            At::KeyOrEnd | At::Key => {
                self.token.clear();
                self.key = Key::Other;
            }
            At::Value if !c.is_whitespace() => {
                self.token.clear();
                let fits = match self.key {
                    Key::Name => c == '"',
                    Key::Arguments => matches!(c, '"' | 'n'),
                    Key::Other => true,
                };
                if !fits {
                    return Step::Bad;
                }
            }
            _ => {}
        }
        if in_text || now == At::Text {
            push(&mut self.token, c, in_text);
        }
        match now {
            At::Colon if in_text => self.key_ends(),
            At::CommaOrEnd if in_text => self.text_ends(offers, out),
            // `null` arguments are none; a call that says nothing of them has none either.
            _ => Step::More,
        }
    }

    /// A character of arguments that are an object; `first` is its brace.
    fn argument(&mut self, c: char, first: bool, in_text: bool, out: &mut Out) -> Step {
        if first && c != '{' {
            return Step::Bad;
        }
        let kept = self.arguments.get_or_insert_default();
        push(kept, c, in_text);
        self.release(out);
        Step::More
    }

    fn key_ends(&mut self) -> Step {
        let Ok(key) = serde_json::from_str::<String>(&self.token) else { return Step::Bad };
        self.key = match key.as_str() {
            "name" if self.name.is_some() => return Step::Bad,
            "arguments" | "parameters" if self.arguments.is_some() => return Step::Bad,
            "name" => Key::Name,
            "arguments" | "parameters" => Key::Arguments,
            "type" | "id" => Key::Other,
            _ if self.strict => return Step::Bad,
            _ => Key::Other,
        };
        Step::More
    }

    fn text_ends(&mut self, offers: &Offers, out: &mut Out) -> Step {
        if self.key == Key::Other {
            return Step::More;
        }
        let Ok(text) = serde_json::from_str::<String>(&self.token) else { return Step::Bad };
        if self.key == Key::Name {
            if !offers.has(&text) {
                return Step::Bad;
            }
            out.call(&text);
            self.name = Some(text);
        } else {
            if !serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|v| v.is_object()) {
                return Step::Bad;
            }
            self.arguments = Some(text);
        }
        self.release(out);
        Step::More
    }

    /// Gives out what arguments are known, once the name is.
    fn release(&mut self, out: &mut Out) {
        if let (Some(_), Some(kept)) = (&self.name, &mut self.arguments) {
            out.arguments(&std::mem::take(kept));
        }
    }

    fn end(&mut self, out: &mut Out) -> Step {
        if self.name.is_none() {
            return Step::Bad;
        }
        if self.arguments.is_none() {
            out.arguments("{}");
        }
        out.end_call();
        Step::Ends
    }
}
