//! The language model of the simulator, and what an uninterrupted run of it gives.

use kv::Draw;

pub(crate) const VOCAB: u32 = 6;
/// The stop token of rows that have one.
pub(crate) const STOP: u32 = 5;

/// K and V of a position: a hash of the prefix that ends there.
pub(crate) fn extend(prefix: u64, token: u32) -> u64 {
    let mut x = prefix.rotate_left(7) ^ (u64::from(token) + 0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 27)
}

/// The token drawn after `prefix`: a function of the prefix, the row's seed and the draw's index.
pub(crate) fn next(prefix: u64, draw: &Draw) -> u32 {
    let hash = extend(extend(prefix, draw.sampling.seed as u32), draw.index);
    let first = (hash >> 13) as u32 % VOCAB;
    (0..VOCAB).map(|shift| (first + shift) % VOCAB).find(|token| !draw.banned.contains(token)).unwrap_or(first)
}

/// How a row ends when nothing interrupts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Stop,
    Length,
    Fault,
}

/// The uninterrupted run: hashes of all positions, delivered tokens, tokens drawn, and the end.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) hashes: Vec<u64>,
    pub(crate) delivered: Vec<u32>,
    pub(crate) drawn: u32,
    pub(crate) end: End,
}

/// `fault_at`: the draw of this index has numbers that are not finite.
pub(crate) fn run(submit: &scheduler::Submit, fault_at: Option<u32>) -> Run {
    let mut hashes = Vec::new();
    let mut prefix = 0;
    for &token in submit.prompt.iter() {
        prefix = extend(prefix, token);
        hashes.push(prefix);
    }
    let mut delivered = Vec::new();
    for index in 0..submit.max_tokens {
        if fault_at == Some(index) {
            return Run { hashes, delivered, drawn: index, end: End::Fault };
        }
        let early = !submit.ignore_eos && index < submit.min_tokens;
        let banned = if early { submit.stop_ids.to_vec() } else { Vec::new() };
        let token = next(prefix, &Draw { sampling: submit.sampling.clone(), index, banned });
        prefix = extend(prefix, token);
        hashes.push(prefix);
        if !submit.ignore_eos && !early && submit.stop_ids.contains(&token) {
            return Run { hashes, delivered, drawn: index + 1, end: End::Stop };
        }
        delivered.push(token);
    }
    Run { hashes, delivered, drawn: submit.max_tokens, end: End::Length }
}
