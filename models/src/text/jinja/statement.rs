//! Tags: the expressions in them are translated, the rest is said as it was.

use super::lex::Token;
use super::parse::{Parser, Want};

/// What becomes of the inside of a tag.
pub(super) enum Said {
    Anew(String),
    AsItWas,
}

/// The most tokens of a tag that is left to minijinja.
const TOKENS_MAX: usize = 50;

/// None for what is no expression; so, too, below.
pub(super) fn print(tokens: &[Token<'_>], namespaces: &[&str]) -> Option<Said> {
    let mut parser = Parser::new(tokens, namespaces);
    let said = parser.tuple(Want::Value)?;
    parser.done().then_some(Said::Anew(said))
}

pub(super) fn block(tokens: &[Token<'_>], namespaces: &[&str]) -> Option<Said> {
    let mut parser = Parser::new(tokens, namespaces);
    let said = match parser.name()? {
        word @ ("if" | "elif") => format!("{word} {}", parser.tuple(Want::Truth)?),
        "for" => each(&mut parser)?,
        "set" => set(&mut parser)?,
        "macro" => {
            let name = parser.name()?;
            parser.sign("(").then_some(())?;
            format!("macro {name}({})", parser.arguments()?)
        }
        "call" => {
            let parameters = if parser.sign("(") { format!("({})", parser.arguments()?) } else { String::new() };
            format!("call{parameters} {}", parser.expression(Want::Value)?)
        }
        "filter" => format!("filter {}", filters(&mut parser)?),
        // It marks what a training run may learn from, and is nothing to a rendered prompt. What is set in it is gone after it.
        "generation" => "with".into(),
        "endgeneration" => "endwith".into(),
        "with" => with(&mut parser)?,
        _ => return (tokens.len() <= TOKENS_MAX).then_some(Said::AsItWas),
    };
    parser.done().then_some(Said::Anew(said))
}

/// Filters of a block, with a bar between them.
fn filters(parser: &mut Parser<'_, '_>) -> Option<String> {
    let mut said = Vec::new();
    loop {
        let name = parser.dotted()?;
        let arguments = if parser.sign("(") { format!("({})", parser.arguments()?) } else { String::new() };
        said.push(name + &arguments);
        if !parser.sign("|") {
            return Some(said.join(" | "));
        }
    }
}

fn each(parser: &mut Parser<'_, '_>) -> Option<String> {
    let targets = targets(parser, 0)?;
    parser.word("in").then_some(())?;
    let mut items = vec![parser.or(Want::Value)?];
    while parser.sign(",") {
        items.push(parser.or(Want::Value)?);
    }
    let over = if items.len() == 1 { items.remove(0) } else { format!("__tuple({})", items.join(", ")) };
    let mut said = format!("for {targets} in __iter({over})");
    if parser.word("if") {
        said += " if ";
        said += &parser.expression(Want::Truth)?;
    }
    if parser.word("recursive") {
        said += " recursive";
    }
    Some(said)
}

fn set(parser: &mut Parser<'_, '_>) -> Option<String> {
    let targets = targets(parser, 0)?;
    if parser.sign("=") {
        return Some(format!("set {targets} = {}", parser.tuple(Want::Value)?));
    }
    let filters = if parser.sign("|") { format!(" | {}", filters(parser)?) } else { String::new() };
    Some(format!("set {targets}{filters}"))
}

const TARGETS_DEPTH_MAX: usize = 8;

/// Names, dotted names, and lists of them, with or without brackets.
fn targets(parser: &mut Parser<'_, '_>, depth: usize) -> Option<String> {
    let mut said = String::new();
    loop {
        if depth < TARGETS_DEPTH_MAX && parser.sign("(") {
            said += &format!("({})", targets(parser, depth + 1)?);
            parser.sign(")").then_some(())?;
        } else {
            said += parser.name()?;
            while parser.sign(".") {
                said += ".";
                said += parser.name()?;
            }
        }
        if !parser.sign(",") {
            return Some(said);
        }
        said += ", ";
    }
}

/// Every value is read before any name has its new one.
fn with(parser: &mut Parser<'_, '_>) -> Option<String> {
    let (mut values, mut names) = (Vec::new(), Vec::new());
    while !parser.done() {
        let target = targets(parser, 0)?;
        parser.sign("=").then_some(())?;
        let i = names.len();
        values.push(format!("__with{i}={}", parser.expression(Want::Value)?));
        names.push(format!("{}=__with{i}", if target.contains(',') { format!("({target})") } else { target }));
        if !parser.sign(",") {
            break;
        }
    }
    values.append(&mut names);
    Some(format!("with {}", values.join(", ")))
}
