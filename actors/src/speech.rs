//! How the served model's family says reasoning and calls of tools, and its tokens as a grammar sees them.

use crate::ask::{Choice, Dialect, Failure, Form, Grammar, Reasoning};
use dialects::Reader;
use grammar::{Guide, Token, Vocabulary};
use kv::Mask;
use models::text::Text;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Special tokens that stand for marks of a family, by id.
pub(crate) type Marks = HashMap<u32, &'static str>;

pub(crate) struct Speech {
    dialect: Dialect,
    reasoning: Reasoning,
    marks: Arc<Marks>,
    /// Made when the first grammar comes: some tenths of a second, and some megabytes.
    vocabulary: OnceLock<Result<Vocabulary, String>>,
}

impl Speech {
    /// What the model's chat template shows, where nothing else is said.
    pub(crate) fn new(text: &Text, dialect: Option<Dialect>, reasoning: Option<Reasoning>) -> Speech {
        let template = text.template().unwrap_or_default();
        let dialect = dialect.unwrap_or_else(|| Dialect::detect(template));
        let reasoning = reasoning.unwrap_or_else(|| Reasoning::detect(template));
        tracing::info!(tool_calls = dialect.name(), reasoning = reasoning.name(), "how the model says them");
        let marks = dialect.markers().iter().chain(reasoning.markers());
        let marks = marks.filter_map(|mark| Some((special(text, mark)?, *mark))).collect();
        Speech { dialect, reasoning, marks: Arc::new(marks), vocabulary: OnceLock::new() }
    }

    pub(crate) fn reasoning(&self) -> Reasoning {
        self.reasoning
    }

    /// The marks that an answer of this form may hold; of a plain completion none are read.
    pub(crate) fn marks(&self, chat: bool) -> Arc<Marks> {
        if chat { Arc::clone(&self.marks) } else { Arc::default() }
    }

    /// Reads an answer. `in_reasoning`: the prompt ended within the mark of reasoning.
    pub(crate) fn reader(&self, chat: bool, form: &Form, in_reasoning: bool) -> Reader {
        let tools = if form.choice == Choice::None { &[] } else { &form.tools[..] };
        match chat {
            true => Reader::new(self.dialect, self.reasoning, tools, in_reasoning),
            false => Reader::new(Dialect::Plain, Reasoning::None, &[], false),
        }
    }

    /// The way through the grammar that this form makes, and the mask of the first draw. None: any token may come.
    ///
    /// # Errors
    /// The field whose grammar cannot be followed, and why.
    pub(crate) fn guide(&self, text: &Text, chat: bool, form: &Form, in_reasoning: bool) -> Result<Option<(Guide, Mask)>, Failure> {
        let special = |mark: &str| special(text, mark);
        let wrong_in =
            |param: &'static str, reason: String| Failure::Invalid { param, code: "invalid_schema", message: format!("{param} cannot be followed: {reason}") };
        if let Some(Grammar::Schema(schema)) = &form.grammar {
            grammar::check_schema(schema).map_err(|reason| wrong_in("response_format", reason))?;
        }
        for tool in &form.tools {
            grammar::check_schema(&tool.parameters).map_err(|reason| wrong_in("tools", reason))?;
        }
        let (param, grammar) = match &form.grammar {
            Some(Grammar::Schema(schema)) => {
                let reasoning = if chat { self.reasoning } else { Reasoning::None };
                let behind = dialects::json_behind_reasoning(schema, reasoning, in_reasoning, &special);
                ("response_format", behind.map_or_else(|| Grammar::Schema(schema.clone()), Grammar::Lark))
            }
            Some(grammar) => ("response_format", grammar.clone()),
            None if form.tools.is_empty() => return Ok(None),
            None => {
                let calls = dialects::grammar(self.dialect, &form.tools, &form.choice, form.parallel, self.reasoning, in_reasoning, &special);
                let Some(calls) = calls else {
                    let message =
                        "tools cannot be called: the model's chat template shows no way to; leave them out, or have the service started with --tool-parser";
                    return Err(Failure::Invalid { param: "tools", code: "no_tool_calls", message: message.into() });
                };
                ("tools", Grammar::Lark(calls))
            }
        };
        let wrong = |reason: String| wrong_in(param, reason);
        let vocabulary = self.vocabulary.get_or_init(|| vocabulary(text)).clone().map_err(wrong)?;
        let mut guide = Guide::new(&vocabulary, &grammar).map_err(wrong)?;
        let mask = guide.mask().map_err(wrong)?;
        Ok(Some((guide, mask)))
    }
}

/// The id of a special token.
fn special(text: &Text, mark: &str) -> Option<u32> {
    text.token_id(mark).filter(|id| text.is_special(*id))
}

fn vocabulary(text: &Text) -> Result<Vocabulary, String> {
    let token = |id| Token { bytes: text.token_bytes(id).unwrap_or_default(), special: text.is_special(id) };
    Vocabulary::new((0..text.vocab_size() as u32).map(token).collect(), text.stop_ids())
}
