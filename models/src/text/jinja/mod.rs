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
pub(super) mod spent;
mod statement;
mod tuple;
mod view;

pub(super) use tuple::Tuple;
pub(super) use view::is_view;

use lex::{Kind, Piece};
use minijinja::Environment;
use statement::Said;

/// What translated templates need: operators, and the filters and tests that differ from minijinja's.
pub(super) fn install(env: &mut Environment<'static>) {
    ops::install(env);
    filters::install(env);
    env.set_unknown_method_callback(methods::method);
}

/// The template in minijinja's words, or the line of what is not Jinja. Nothing that could not be read reaches minijinja, whose parser
/// follows some brackets and signs as deep as they go.
pub(super) fn translate(source: &str) -> Result<String, usize> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let pieces = lex::pieces(&source);
    let namespaces = pieces.iter().filter_map(Piece::namespace).collect::<Vec<_>>();
    let mut out = String::with_capacity(source.len() * 2);
    let mut line = 1;
    for piece in &pieces {
        let tag = match piece {
            Piece::Text(text) => {
                line += lines(text);
                out.push_str(text);
                continue;
            }
            Piece::Tag(tag) => tag,
        };
        let tokens = tag.tokens.as_deref().ok_or(line)?;
        let inner = match tag.kind {
            Kind::Print => statement::print(tokens, &namespaces),
            Kind::Block => statement::block(tokens, &namespaces),
        };
        match inner.ok_or(line)? {
            Said::Anew(inner) => {
                let missing = lines(tag.inner).saturating_sub(lines(&inner));
                out.extend([tag.open, " ", &inner, &"\n".repeat(missing), " ", tag.close]);
            }
            Said::AsItWas => out.extend([tag.open, tag.inner, tag.close]),
        }
        line += lines(tag.inner);
    }
    Ok(out)
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|&b| b == b'\n').count()
}
