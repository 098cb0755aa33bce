//! Jinja as Python runs it, said in minijinja's words.
//!
//! minijinja's operators are its own: it concatenates what Python refuses, iterates over none, compares anything with anything, and
//! has no tuples and no bound methods. None of that can be set, so a template is translated before it is compiled: each operator
//! becomes a call of a function that does what Python does. What is written outside of tags stays as it is, to the line.

mod filters;
mod lex;
mod markup;
mod methods;
mod ops;
mod parse;
mod statement;
mod tuple;
mod view;

pub(super) use tuple::Tuple;
pub(super) use view::is_view;

use lex::{Kind, Piece};
use minijinja::Environment;

/// What translated templates need: operators, and the filters and tests that differ from minijinja's.
pub(super) fn install(env: &mut Environment<'static>) {
    ops::install(env);
    filters::install(env);
    env.set_unknown_method_callback(methods::method);
}

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
