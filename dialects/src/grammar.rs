//! A grammar under which calls come out well-formed, in llguidance's dialect of Lark.
//!
//! Free text is a lexeme that holds no mark. Where a mark is one token, it stands beside that lexeme as a token; where it is spelled,
//! it ends a lazy lexeme, since a greedy one would read the mark's beginning as text and then be stuck.

mod calls;
mod gemma;
mod rules;
mod xml;

use crate::dialect::{Dialect, Reasoning};
use crate::offer::{Choice, Tool};
use rules::Rules;
use serde_json::Value;

/// A Lark grammar that makes tool calls well-formed, with arguments that obey the tools' schemas; `None` where nothing is to be constrained or
/// the dialect has no calls.
///
/// `Auto` is free text in which a call whose opening mark is written is completed; `Required` is at least one call and nothing else, `Named` is
/// one call of that tool; each behind the rest of the reasoning if the answer begins in it. Without `parallel` there is one call at most.
/// `special` gives a mark's id where the tokenizer has it as one token.
///
/// Where the answer opens reasoning itself, that may come first in every case. Free text holds no mark, not even `<think>` further on. Parameters
/// come in the schema's order. What cannot be said outside of JSON is left to the model: a string's `pattern` and `format`, in the families whose
/// strings are bare.
pub fn grammar(
    dialect: Dialect,
    tools: &[Tool],
    choice: &Choice,
    parallel: bool,
    reasoning: Reasoning,
    begins_in_reasoning: bool,
    special: &dyn Fn(&str) -> Option<u32>,
) -> Option<String> {
    let offered: Vec<&Tool> = match choice {
        Choice::None => return None,
        Choice::Named(name) => tools.iter().filter(|t| t.name == *name).take(1).collect(),
        Choice::Auto | Choice::Required => tools.iter().collect(),
    };
    if offered.is_empty() || dialect == Dialect::Plain {
        return None;
    }
    let parallel = parallel && !matches!(choice, Choice::Named(_));
    let marks = dialect.markers().iter().chain(reasoning.markers()).copied();
    let mut rules = Rules::new(marks.filter_map(|mark| Some((mark, special(mark)?))).collect());
    let think = thinking(&mut rules, reasoning, begins_in_reasoning);
    let body = if *choice == Choice::Auto {
        let forbidden: Vec<&str> = dialect.opens().iter().copied().chain(reasoning.pair().map(|(open, _)| open)).collect();
        let rethinks = reasoning.opens_anywhere() && reasoning.pair().is_some_and(|(open, _)| rules.is_token(open));
        calls::auto(&mut rules, dialect, &offered, parallel, &forbidden, rethinks)
    } else {
        calls::required(&mut rules, dialect, &offered, parallel)
    };
    rules.add("start", &format!("{think} {body}"));
    Some(rules.finish())
}

/// A Lark grammar of JSON that `schema` allows, behind the reasoning that the family writes first; `None` for a family without reasoning.
pub fn json_behind_reasoning(schema: &Value, reasoning: Reasoning, begins_in_reasoning: bool, special: &dyn Fn(&str) -> Option<u32>) -> Option<String> {
    reasoning.pair()?;
    let mut rules = Rules::new(reasoning.markers().iter().filter_map(|mark| Some((*mark, special(mark)?))).collect());
    let think = thinking(&mut rules, reasoning, begins_in_reasoning);
    rules.add("start", &format!("{think} {}", rules::json_of(schema)));
    Some(rules.finish())
}

/// Reasoning before anything else: the rest of it, or all of it if the answer opens it. What `start` begins with.
fn thinking(rules: &mut Rules, reasoning: Reasoning, begins: bool) -> &'static str {
    let Some((open, close)) = reasoning.pair() else { return "" };
    let rest = rules.until("THOUGHT", "/(?s:.*)/", &[close], close);
    rules.add("gap", "\"\\n\\n\" | \"\\n\"");
    let opened = format!("{} {rest} gap?", rules.said(open));
    rules.add("rethink", &opened);
    if begins {
        rules.add("think", &format!("{rest} gap?"));
        return "think";
    }
    "rethink?"
}
