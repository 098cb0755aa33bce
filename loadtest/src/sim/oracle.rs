//! The uninterrupted run of a row: what its client must see, whatever happens around it.

use kv::Draw;
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
        let banned = if early { submit.stop_ids.to_vec() } else { Vec::new() };
        let token = synthetic::after(prefix, &Draw { sampling: submit.sampling.clone(), index, banned }, vocab);
        let Some(token) = token.filter(|_| fault_at != Some(index)) else {
            return Run { hashes, delivered, drawn: index, end: End::Fault };
        };
        prefix = synthetic::extend(prefix, hashes.len() as u32, token);
        hashes.push(prefix);
        if !submit.ignore_eos && !early && submit.stop_ids.contains(&token) {
            return Run { hashes, delivered, drawn: index + 1, end: End::Stop };
        }
        delivered.push(token);
    }
    Run { hashes, delivered, drawn: submit.max_tokens, end: End::Length }
}
