//! The uninterrupted run of a row: what its client must see, whatever happens around it.

use kv::{Draw, Edit, Mask};
use models::synthetic;
use scheduler::Submit;

/// How a row ends when nothing interrupts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Stop,
    Length,
    Fault,
}

#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// The hash of the prefix that ends at each position: what the K and V there stand for.
    pub(crate) hashes: Vec<u64>,
    pub(crate) delivered: Vec<u32>,
    /// Tokens drawn, a final stop token included.
    pub(crate) drawn: u32,
    pub(crate) end: End,
}

/// `fault_at`: the draw of this index has numbers that are not finite.
pub(crate) fn run(submit: &Submit, fault_at: Option<u32>, vocab: u32) -> Run {
    let mut hashes = Vec::with_capacity(submit.prompt.len() + submit.max_tokens as usize);
    let mut prefix = synthetic::EMPTY;
    for (position, &token) in (0..).zip(submit.prompt.iter()) {
        prefix = synthetic::extend(prefix, position, token);
        hashes.push(prefix);
    }
    let mut delivered = Vec::new();
    for index in 0..submit.max_tokens {
        let early = !submit.ignore_eos && index < submit.min_tokens;
        let allowed = submit.mask.as_ref().map(|_| mask(prefix, vocab));
        let only_stops = allowed.as_ref().is_some_and(|mask| (0..vocab).all(|id| !mask.has(id) || submit.stop_ids.contains(&id)));
        let banned = if early && !only_stops { submit.stop_ids.to_vec() } else { Vec::new() };
        let (logprobs, edits) = (submit.wishes.logprobs, edits(submit, &delivered));
        let token = synthetic::after(prefix, &Draw { sampling: submit.sampling.clone(), index, banned, allowed, edits, logprobs }, vocab);
        let Some(token) = token.filter(|_| fault_at != Some(index)) else {
            return Run { hashes, delivered, drawn: index, end: End::Fault };
        };
        prefix = synthetic::extend(prefix, hashes.len() as u32, token);
        hashes.push(prefix);
        if !submit.ignore_eos && (!early || submit.mask.is_some()) && submit.stop_ids.contains(&token) {
            return Run { hashes, delivered, drawn: index + 1, end: End::Stop };
        }
        delivered.push(token);
    }
    Run { hashes, delivered, drawn: submit.max_tokens, end: End::Length }
}

/// The hash of a whole prompt.
pub(crate) fn hash(prompt: &[u32]) -> u64 {
    (0..).zip(prompt).fold(synthetic::EMPTY, |hash, (position, &token)| synthetic::extend(hash, position, token))
}

/// Which ids may follow a prefix of this hash, for a row whose draws have masks: about half, and never none.
pub(crate) fn mask(prefix: u64, vocab: u32) -> Mask {
    let words = (0..).zip(0..vocab.div_ceil(32)).map(|(at, _)| {
        let word = (synthetic::extend(prefix, at, vocab) >> 16) as u32;
        if vocab - at * 32 < 32 { word & ((1 << (vocab % 32)) - 1) } else { word }
    });
    let mut words: Vec<u32> = words.collect();
    if words.iter().all(|word| *word == 0) {
        words[0] = 1;
    }
    Mask::new(words)
}

/// What penalties do to the draw after these tokens: counted anew each time.
fn edits(submit: &Submit, delivered: &[u32]) -> Vec<Edit> {
    let wishes = &submit.wishes;
    let penal = (wishes.presence, wishes.frequency, wishes.repetition) != (0.0, 0.0, 1.0);
    let (answer, prompt): (&[u32], &[u32]) = if penal { (delivered, &submit.prompt) } else { (&[], &[]) };
    let of_prompt = prompt.iter().filter(|_| wishes.repetition != 1.0);
    let mut ids: Vec<u32> = wishes.bias.iter().map(|(id, _)| *id).chain(of_prompt.copied()).chain(answer.iter().copied()).collect();
    if penal {
        ids.sort_unstable();
        ids.dedup();
    }
    let edit = |id: u32| {
        let times = answer.iter().filter(|token| **token == id).count();
        Edit {
            id,
            add: wishes.bias.iter().find(|(of, _)| *of == id).map_or(0.0, |(_, add)| *add),
            scale: if times > 0 || prompt.contains(&id) { wishes.repetition } else { 1.0 },
            minus: if times > 0 { wishes.presence + wishes.frequency * times as f32 } else { 0.0 },
        }
    };
    ids.into_iter().map(edit).collect()
}
