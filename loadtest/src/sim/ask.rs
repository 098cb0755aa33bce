//! One request of a script, and how its client behaves.

use super::oracle;
use super::shape::Shape;
use super::troubles::{Troubles, hit};
use fastrand::Rng;
use kv::{Sampling, SeqId};
use scheduler::{KeyId, Submit, Wishes};
use std::fmt;

#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) submit: Submit,
    /// Microseconds until the mask of the next draw is there, for a row that has masks.
    pub(crate) guide_us: u64,
    /// The draw of this index goes bad.
    pub(crate) fault_at: Option<u32>,
    /// Microseconds that the client takes for a token; 0 reads at once.
    pub(crate) read_us: u64,
    /// The client leaves when it has read so many tokens.
    pub(crate) leaves_after: Option<u32>,
}

impl Ask {
    /// The same request once more, as another row of maybe another key.
    pub(crate) fn again(&self, seq: SeqId, (key, weight): (KeyId, u32)) -> Ask {
        Ask { submit: Submit { seq, key, weight, ..self.submit.clone() }, ..self.clone() }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.submit;
        write!(f, "submit row {}: key {} of weight {}, prompt {:?}, {} tokens", s.seq.0, s.key.0, s.weight, &s.prompt[..], s.max_tokens)?;
        if !s.stop_ids.is_empty() {
            write!(f, ", stops at {:?} from {}{}", &s.stop_ids[..], s.min_tokens, if s.ignore_eos { ", ignored" } else { "" })?;
        }
        if s.priority != 0 {
            write!(f, ", priority {}", s.priority)?;
        }
        if s.sampling.temperature > 0.0 {
            write!(f, ", seed {}", s.sampling.seed)?;
        }
        if s.wishes != Wishes::default() {
            write!(f, ", {:?}", s.wishes)?;
        }
        if s.mask.is_some() {
            write!(f, ", a mask a draw after {} us", self.guide_us)?;
        }
        if let Some(at) = self.fault_at {
            write!(f, ", goes bad at {at}")?;
        }
        if self.read_us > 0 {
            write!(f, ", reads a token in {} us", self.read_us)?;
        }
        self.leaves_after.map_or(Ok(()), |n| write!(f, ", leaves after {n}"))
    }
}

/// Makes requests of one seed.
pub(crate) struct Asks {
    shape: Shape,
    troubles: Troubles,
    /// Common beginnings.
    common: [Vec<u32>; 3],
    /// Requests that a next turn may follow.
    chats: Vec<Ask>,
    /// Ids that prompts are made of: few, so that strangers begin alike, or all.
    alphabet: u32,
}

/// Chats that are remembered.
const CHATS: usize = 8;

impl Asks {
    pub(crate) fn new(shape: Shape, troubles: Troubles, rng: &mut Rng) -> Asks {
        let alphabet = if rng.bool() { 2 } else { shape.vocab };
        let common = std::array::from_fn(|_| tokens(rng, alphabet, shape.limits.context));
        Asks { shape, troubles, common, chats: Vec::new(), alphabet }
    }

    pub(crate) fn make(&mut self, rng: &mut Rng, seq: SeqId, (key, weight): (KeyId, u32)) -> Ask {
        let (shape, troubles) = (self.shape, self.troubles);
        let prompt = self.prompt(rng);
        let max_tokens = if rng.u32(0..8) == 0 { rng.u32(0..=shape.limits.context / 2) } else { rng.u32(1..=shape.limits.context / 4) };
        let stops = hit(rng, troubles.stops);
        let stop_ids: Vec<u32> = if stops { (0..rng.u32(1..=4)).collect() } else { Vec::new() };
        let temperature = if hit(rng, troubles.sampled) { 0.8 } else { 0.0 };
        let wishes = if hit(rng, troubles.sampled / 2) { wishes(rng, shape.vocab) } else { Wishes::default() };
        let guided = !prompt.is_empty() && hit(rng, troubles.sampled / 2);
        let mask = guided.then(|| oracle::mask(oracle::hash(&prompt), shape.vocab));
        let ask = Ask {
            guide_us: shape.pace.step_us * rng.u64(0..=3) / 2,
            submit: Submit {
                seq,
                key,
                weight,
                priority: if hit(rng, troubles.priorities) { rng.i32(-1..=1) } else { 0 },
                prompt: prompt.into(),
                max_tokens,
                min_tokens: if stops && rng.bool() { rng.u32(0..6) } else { 0 },
                stop_ids: stop_ids.into(),
                ignore_eos: stops && rng.u32(0..5) == 0,
                sampling: Sampling { temperature, top_p: 1.0, top_k: 0, min_p: 0.0, seed: rng.u64(..) },
                wishes,
                mask,
            },
            fault_at: hit(rng, troubles.faults / 3).then(|| rng.u32(0..8)),
            read_us: if hit(rng, troubles.slow) { shape.pace.step_us * rng.u64(1..=50) } else { 0 },
            leaves_after: hit(rng, troubles.leavers / 2).then(|| rng.u32(1..=max_tokens.max(1))),
        };
        if self.chats.len() == CHATS {
            self.chats.remove(rng.usize(0..CHATS));
        }
        self.chats.push(ask.clone());
        ask
    }

    /// Its length is anything up to half of the context, unless it is a giant's; at times there is no token at all.
    fn prompt(&self, rng: &mut Rng) -> Vec<u32> {
        let context = self.shape.limits.context;
        let most = if hit(rng, self.troubles.giants / 3) { context + 2 } else { context / 2 };
        let length = if most > context { rng.u32(context * 3 / 4..=most) } else { rng.u32(0..=most).max(u32::from(rng.u32(0..16) > 0)) };
        if !hit(rng, self.troubles.shared) {
            return tokens(rng, self.alphabet, length);
        }
        let mut prompt = match self.chats.get(rng.usize(0..CHATS)) {
            // The next turn of a chat: its prompt, its answer, and something new.
            Some(chat) if rng.bool() && chat.submit.prompt.len() < length as usize => {
                let answer = oracle::run(&chat.submit, chat.fault_at, self.shape.vocab).delivered;
                [&chat.submit.prompt[..], &answer].concat()
            }
            _ => self.common[rng.usize(0..3)][..(length as usize).min(context as usize)].to_vec(),
        };
        let own = rng.u32(0..=6);
        prompt.truncate(length.saturating_sub(own).max(1) as usize);
        prompt.extend(tokens(rng, self.alphabet, own));
        prompt
    }
}

/// Some of what a client may ask of the draws beside sampling.
fn wishes(rng: &mut Rng, vocab: u32) -> Wishes {
    let mut some = |x: f32, none: f32| if rng.bool() { x } else { none };
    let (presence, frequency, repetition) = (some(0.5, 0.0), some(0.25, 0.0), some(1.5, 1.0));
    let bias = if rng.bool() { vec![(rng.u32(0..vocab), 1.0)] } else { Vec::new() };
    Wishes { bias, presence, frequency, repetition, logprobs: rng.bool().then(|| rng.u8(0..3)) }
}

fn tokens(rng: &mut Rng, alphabet: u32, count: u32) -> Vec<u32> {
    (0..count).map(|_| rng.u32(0..alphabet)).collect()
}
