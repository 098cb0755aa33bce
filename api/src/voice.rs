//! What every protocol has to say of an answer, each in its own shapes: as it comes, or in one body.

use crate::refusal::Refusal;
use actors::{Finish, Piece, Timings, TokenLogprob, Usage};
use dialects::Whole;

/// How one choice ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct End {
    pub(crate) finish: Finish,
    /// Which of the request's stop strings ended it, by its place among them.
    pub(crate) stop: Option<usize>,
    pub(crate) usage: Usage,
    /// Of the answer's tokens, those that reasoning was said with.
    pub(crate) reasoning_tokens: u32,
    pub(crate) timings: Timings,
}

/// One choice, from its beginning to its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Collected {
    pub(crate) said: Whole,
    pub(crate) logprobs: Vec<TokenLogprob>,
    pub(crate) end: End,
}

/// Writes one request's answer. A request has one choice or several, by number from 0; their pieces come mixed.
pub(crate) trait Voice {
    /// Before anything else of a stream.
    fn begin(&mut self, out: &mut Vec<u8>, prompt_tokens: u32);

    /// Pieces of a choice, at least one, and the log-probabilities of the tokens behind them where the request wants them.
    fn said(&mut self, out: &mut Vec<u8>, choice: u32, pieces: Vec<Piece>, logprobs: &[TokenLogprob]);

    /// A choice has ended.
    fn done(&mut self, out: &mut Vec<u8>, choice: u32, end: &End);

    /// All choices have; `ends` are in the order of their numbers.
    fn close(&mut self, out: &mut Vec<u8>, ends: &[End]);

    /// After the first byte the status is out: the error is the last frame.
    fn failed(&mut self, out: &mut Vec<u8>, refusal: &Refusal);

    /// For proxies, after a silence.
    fn ping(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b": ping\n\n");
    }

    /// The body of an answer that is not streamed; `choices` in the order of their numbers.
    fn whole(&mut self, choices: Vec<Collected>) -> String;
}
