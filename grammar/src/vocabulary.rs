//! A model's tokens as a trie of bytes.

use crate::reason;
use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use std::sync::Arc;

/// A token as a grammar sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The bytes that it stands for; a special token's are its name's. Empty: no grammar allows it.
    pub bytes: Vec<u8>,
    /// It is no text: a grammar allows it only where it names it.
    pub special: bool,
}

/// What all grammars of one model share. Making it takes some tenths of a second.
#[derive(Clone)]
pub struct Vocabulary(pub(crate) Arc<ParserFactory>);

impl Vocabulary {
    /// `tokens` by id, and the ids that end an answer.
    ///
    /// # Errors
    /// Without an id that ends an answer: what a grammar has finished could not end.
    pub fn new(tokens: Vec<Token>, stops: &[u32]) -> Result<Vocabulary, String> {
        let stops: Vec<u32> = stops.iter().copied().filter(|id| (*id as usize) < tokens.len()).collect();
        let Some(&stop) = stops.first() else {
            return Err("the model has no token that ends an answer".into());
        };
        let word = |Token { mut bytes, special }: Token| {
            if special && !bytes.is_empty() {
                bytes.insert(0, TokTrie::SPECIAL_TOKEN_MARKER);
            }
            bytes
        };
        let words: Vec<Vec<u8>> = tokens.into_iter().map(word).collect();
        let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, stop), &words).with_eos_tokens(&stops);
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let made = ParserFactory::new(&env, InferenceCapabilities::default(), &SlicedBiasComputer::general_slices());
        let mut factory = made.map_err(|error| reason(&error))?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        // A client's schema may cost this much and no more: some tenths of a second, and a hundred megabytes.
        limits.precompute_large_lexemes = false;
        limits.max_lexer_states = 50_000;
        limits.initial_lexer_fuel = 200_000;
        Ok(Vocabulary(Arc::new(factory)))
    }
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vocabulary").field("tokens", &self.0.tok_env().tok_trie().vocab_size()).finish()
    }
}
