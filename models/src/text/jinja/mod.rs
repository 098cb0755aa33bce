//! Jinja as Python runs it, said in minijinja's words.
//!
//! minijinja's operators are its own: it concatenates what Python refuses, iterates over none, compares anything with anything, and
//! has no tuples and no bound methods. None of that can be set, so a template is translated before it is compiled: each operator
//! becomes a call of a function that does what Python does. What is written outside of tags stays as it is, to the line.

mod lex;
mod methods;
mod ops;
mod parse;
mod statement;
mod tuple;

pub(super) use methods::method;
pub(super) use ops::install;
pub(super) use tuple::Tuple;

use lex::{Kind, Piece};

/// The template in minijinja's words. What is not Jinja stays as it is, for minijinja to name the error and its line.
pub(super) fn translate(source: &str) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let pieces = lex::pieces(&source);
    let namespaces = pieces.iter().filter_map(Piece::namespace).collect::<Vec<_>>();
    let mut out = String::with_capacity(source.len() * 2);
    for piece in &pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Tag(tag) => {
                let inner = tag.tokens.as_deref().and_then(|tokens| match tag.kind {
                    Kind::Print => statement::print(tokens, &namespaces),
                    Kind::Block => statement::block(tokens, &namespaces),
                });
                match inner {
                    Some(inner) => {
                        let lines = |s: &str| s.matches('\n').count();
                        let missing = lines(tag.inner).saturating_sub(lines(&inner));
                        out.extend([tag.open, " ", &inner, &"\n".repeat(missing), " ", tag.close]);
                    }
                    None => out.extend([tag.open, tag.inner, tag.close]),
                }
            }
        }
    }
    out
}
