//! Whether a request can be answered by this model at all, decided before anything is reserved for it. Pure.

use crate::ask::{Failure, Params};
use std::sync::Arc;

/// The code of a request that is larger than the whole pool.
pub(crate) const NEVER_FITS: &str = "kv_budget_exceeded";

/// What the loaded model bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Positions a sequence may have.
    pub(crate) context: u32,
    /// Tokens that a row may come to with the whole KV budget for itself.
    pub(crate) pool_tokens: u64,
    pub(crate) vocab: u32,
}

/// A prompt that fits, and how long its answer may become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) prompt: Arc<[u32]>,
    pub(crate) max_tokens: u32,
}

/// Checks `ids` (which came from the field `param`) and the limits asked for.
pub(crate) fn check(ids: Vec<u32>, param: &'static str, params: &Params, bounds: Bounds) -> Result<Checked, Failure> {
    if ids.is_empty() {
        return invalid(param, "empty_prompt", "the prompt has no tokens; at least one is needed".into());
    }
    if let Some(id) = ids.iter().find(|&&id| id >= bounds.vocab) {
        let last = bounds.vocab - 1;
        return invalid(param, "invalid_token", format!("token id {id} is not in the model's vocabulary; allowed are 0 to {last}"));
    }
    if let Some((id, _)) = params.logit_bias.iter().find(|(id, _)| *id >= bounds.vocab) {
        let last = bounds.vocab - 1;
        return invalid("logit_bias", "invalid_token", format!("logit_bias: token id {id} is not in the model's vocabulary; allowed are 0 to {last}"));
    }
    let prompt = ids.len() as u64;
    let (context, pool) = (u64::from(bounds.context), bounds.pool_tokens);
    if prompt >= context {
        let message = format!("the prompt has {prompt} tokens; the model's context holds {context}, and the answer needs at least one of them");
        return invalid(param, "context_length_exceeded", message);
    }
    if prompt >= pool {
        let message = format!("the prompt has {prompt} tokens; the KV budget holds {pool}");
        return invalid(param, NEVER_FITS, message);
    }
    let max_tokens = match params.max_tokens {
        None => {
            let room = (context.min(pool) - prompt) as u32;
            params.usual_tokens.map_or(room, |usual| usual.max(params.min_tokens).min(room))
        }
        Some(max_tokens) => max_tokens_asked(max_tokens, prompt, bounds)?,
    };
    if params.min_tokens > max_tokens {
        let message = format!("min_tokens is {}; at most {max_tokens} can be generated", params.min_tokens);
        return invalid("min_tokens", "invalid_value", message);
    }
    Ok(Checked { prompt: ids.into(), max_tokens })
}

fn max_tokens_asked(max_tokens: u32, prompt: u64, bounds: Bounds) -> Result<u32, Failure> {
    let need = prompt + u64::from(max_tokens);
    if max_tokens == 0 {
        return invalid("max_tokens", "invalid_value", "max_tokens is 0; at least 1 is needed".into());
    }
    if need > u64::from(bounds.context) {
        let message = format!("the prompt has {prompt} tokens and max_tokens is {max_tokens}, {need} together; the model's context holds {}", bounds.context);
        return invalid("max_tokens", "context_length_exceeded", message);
    }
    if need > bounds.pool_tokens {
        let message = format!("the prompt has {prompt} tokens and max_tokens is {max_tokens}, {need} together; the KV budget holds {}", bounds.pool_tokens);
        return invalid("max_tokens", NEVER_FITS, message);
    }
    Ok(max_tokens)
}

fn invalid<T>(param: &'static str, code: &'static str, message: String) -> Result<T, Failure> {
    Err(Failure::Invalid { param, code, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { context: 100, pool_tokens: 80, vocab: 10 };

    fn outcome(prompt: usize, max_tokens: Option<u32>, min_tokens: u32) -> Result<u32, (&'static str, &'static str)> {
        let params = Params { max_tokens, min_tokens, ..Params::default() };
        match check(vec![9; prompt], "prompt", &params, BOUNDS) {
            Ok(checked) => Ok(checked.max_tokens),
            Err(Failure::Invalid { param, code, .. }) => Err((param, code)),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_fits_and_what_does_not() {
        let table = [
            ((0, None, 0), Err(("prompt", "empty_prompt"))),
            ((1, None, 0), Ok(79)),
            ((79, None, 0), Ok(1)),
            ((80, None, 0), Err(("prompt", NEVER_FITS))),
            ((100, None, 0), Err(("prompt", "context_length_exceeded"))),
            ((10, Some(0), 0), Err(("max_tokens", "invalid_value"))),
            ((10, Some(70), 0), Ok(70)),
            ((10, Some(71), 0), Err(("max_tokens", NEVER_FITS))),
            ((10, Some(91), 0), Err(("max_tokens", "context_length_exceeded"))),
            ((10, Some(u32::MAX), 0), Err(("max_tokens", "context_length_exceeded"))),
            ((10, Some(5), 6), Err(("min_tokens", "invalid_value"))),
        ];
        for ((prompt, max, min), want) in table {
            assert_eq!(outcome(prompt, max, min), want, "{prompt} {max:?} {min}");
        }
    }

    #[test]
    fn a_usual_length_gives_way() {
        for ((prompt, usual, min), want) in [((10, 16, 0), Ok(16)), ((70, 16, 0), Ok(10)), ((10, 16, 20), Ok(20)), ((70, 16, 11), Err("min_tokens"))] {
            let params = Params { usual_tokens: Some(usual), min_tokens: min, ..Params::default() };
            let got = check(vec![9; prompt], "prompt", &params, BOUNDS).map(|checked| checked.max_tokens);
            let got = got.map_err(|failure| if let Failure::Invalid { param, .. } = failure { param } else { "something else" });
            assert_eq!(got, want, "{prompt} {usual} {min}");
        }
    }

    #[test]
    fn an_unknown_id_is_named() {
        let got = check(vec![1, 10], "prompt", &Params::default(), BOUNDS);
        let Err(Failure::Invalid { code, message, .. }) = got else { panic!("{got:?}") };
        assert_eq!(code, "invalid_token");
        assert!(message.contains("10") && message.contains("0 to 9"), "{message}");
    }
}
