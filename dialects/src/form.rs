//! One call, or several that stand behind one mark, character by character.

use crate::dialect::Dialect;
use crate::gemma_call::GemmaCall;
use crate::json_call::JsonCalls;
use crate::offer::Offers;
use crate::out::Out;
use crate::xml_call::XmlCall;

/// What a character did to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    More,
    /// The character completes it.
    Ends,
    /// The calls were whole before; what came since the last one ended is not theirs.
    Over,
    /// No call is like this.
    Bad,
}

/// A call in its family's form. Its opening mark has been read.
#[derive(Debug)]
pub(crate) enum Form {
    Json(JsonCalls),
    Xml(XmlCall),
    Gemma(GemmaCall),
}

impl Form {
    /// `open` says which of the family's opening marks was read.
    pub(crate) fn new(dialect: Dialect, open: usize) -> Form {
        match dialect {
            Dialect::Plain | Dialect::Hermes => Form::Json(JsonCalls::hermes()),
            Dialect::Llama3 => Form::Json(JsonCalls::llama3(open == 1)),
            Dialect::Mistral => Form::Json(JsonCalls::mistral()),
            Dialect::QwenCoder => Form::Xml(XmlCall::qwen_coder(open == 0)),
            Dialect::MiniCpm => Form::Xml(XmlCall::mini_cpm()),
            Dialect::Glm => Form::Xml(XmlCall::glm()),
            Dialect::Gemma4 => Form::Gemma(GemmaCall::new()),
        }
    }

    pub(crate) fn step(&mut self, c: char, offers: &Offers, out: &mut Out) -> Step {
        match self {
            Form::Json(calls) => calls.step(c, offers, out),
            Form::Xml(call) => call.step(c, offers, out),
            Form::Gemma(call) => call.step(c, offers, out),
        }
    }

    /// Whether every call so far is whole, and the answer may end here.
    pub(crate) fn rests(&self) -> bool {
        match self {
            Form::Json(calls) => calls.rests(),
            Form::Xml(call) => call.rests(),
            Form::Gemma(call) => call.rests(),
        }
    }
}
