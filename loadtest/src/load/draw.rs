//! Seeded draws that depend on what they are for and on an index, and on nothing that was drawn before. Pure.

/// What a draw is for. Two purposes never share a draw, so that, say, clients that leave are not always those that read slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Leave = 1,
    LeaveAfter,
    Slow,
    Key,
    Group,
    Turns,
    Words,
    Output,
    Arrivals,
}

/// 64 random bits.
pub fn bits(seed: u64, purpose: Purpose, index: u64) -> u64 {
    mix(mix(seed ^ mix(purpose as u64)) ^ mix(index))
}

/// A number in [0, 1).
pub fn unit(seed: u64, purpose: Purpose, index: u64) -> f64 {
    // 53 bits make a number in [0, 1) that f64 holds exactly.
    (bits(seed, purpose, index) >> 11) as f64 / (1u64 << 53) as f64
}

/// A number from `low` to `high`, both of them possible, all as likely.
pub fn between(seed: u64, purpose: Purpose, index: u64, low: u32, high: u32) -> u32 {
    let count = u64::from(high - low) + 1;
    // At most 2^32 of 2^64: the bias of a remainder is below one in four thousand million.
    low + (bits(seed, purpose, index) % count) as u32
}

/// SplitMix64's finaliser (Steele, Lea, Flood 2014).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_differ_by_seed_and_purpose() {
        let mean = |seed, purpose| (0..10_000).map(|i| unit(seed, purpose, i)).sum::<f64>() / 1e4;
        for purpose in [Purpose::Leave, Purpose::Slow, Purpose::Key] {
            // Six standard deviations of the mean of 10,000 uniform draws.
            assert!((mean(7, purpose) - 0.5).abs() < 6.0 * (1.0f64 / 12.0 / 1e4).sqrt(), "{purpose:?}");
        }
        assert_ne!(bits(1, Purpose::Leave, 0), bits(2, Purpose::Leave, 0));
        assert_ne!(bits(1, Purpose::Leave, 0), bits(1, Purpose::Slow, 0));
        assert_eq!(bits(1, Purpose::Leave, 5), bits(1, Purpose::Leave, 5));
    }

    #[test]
    fn both_ends_of_a_range_occur_and_nothing_beyond() {
        let seen: std::collections::BTreeSet<u32> = (0..200).map(|i| between(3, Purpose::Words, i, 4, 7)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [4, 5, 6, 7]);
        assert_eq!(between(3, Purpose::Words, 0, 9, 9), 9);
        between(3, Purpose::Words, 0, 0, u32::MAX);
    }
}
