//! How a step's decode rows are dealt to threadgroups: plain numbers, no device.

use kv::step::BLOCK_TOKENS;
use mlx_rs::Dtype;

/// What a kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    pub heads: i32,
    pub kv_heads: i32,
    pub head_dim: i32,
    /// Of q, K, V and the output.
    pub dtype: Dtype,
}

/// The kernel's constants that change how fast it is, not what it computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Lanes that read one key together: a power of two from 4 to 32.
    pub lanes: i32,
    /// Keys that a lane asks for before it uses the first.
    pub deep: i32,
    pub warps: i32,
    /// Threadgroups that share the query heads of one K head.
    pub parts: i32,
    /// Tiles of keys that a warp has asked for or uses, where copies run behind.
    pub ahead: i32,
}

/// Most query heads of a threadgroup: each costs registers for its query and its sums.
const SHARE_MAX: i32 = 8;

/// Most threadgroups for one row's keys. The last kernel reads this many partial results for each output.
pub const SPLITS_MAX: u32 = 32;

/// Threadgroups that keep a large GPU busy: two for each of an H200's 132 multiprocessors. More of them were slower there
/// (docs/gpu.md): each costs a partial result, and merging them a launch. A smaller GPU runs them in turns.
const BUSY: u64 = 256;

/// Keys of a split at the least: several tiles for each of four warps.
const CHUNK_MIN: u32 = 64;

impl Spec {
    /// Bytes of one element, or why there is no kernel for this shape.
    pub fn check(&self) -> Result<i32, String> {
        let bytes = match self.dtype {
            Dtype::Float32 => 4,
            Dtype::Float16 | Dtype::Bfloat16 => 2,
            other => return Err(format!("no kernel for {other:?}: float32, float16 and bfloat16 are possible")),
        };
        if self.head_dim % 8 != 0 || !(8..=256).contains(&self.head_dim) {
            return Err(format!("no kernel for head_dim {}: multiples of 8 up to 256 are possible", self.head_dim));
        }
        if self.kv_heads < 1 || self.heads % self.kv_heads != 0 {
            return Err(format!("no kernel for {} heads over {} K heads: a multiple is needed", self.heads, self.kv_heads));
        }
        Ok(bytes)
    }
}

impl Tuning {
    /// Bytes that a threadgroup of attention shares: keys and values, later what its warps hold, which is at most 16 KiB (see the text).
    pub(super) fn shared(&self, spec: &Spec) -> Result<i32, String> {
        let pieces = (spec.head_dim * spec.check()? / 16 + self.lanes - 1) / self.lanes;
        Ok((self.warps * self.ahead * 2 * self.deep * pieces * 512).max(16 * 1024).max(self.warps * spec.head_dim * 4))
    }

    /// What is fastest as far as measured (docs/gpu.md).
    pub fn of(spec: &Spec) -> Result<Tuning, String> {
        let vectors = spec.head_dim * spec.check()? / 16;
        let lanes = (vectors as u32).next_power_of_two().clamp(4, 32) as i32;
        Ok(Tuning { lanes, deep: 2, warps: 4, parts: (spec.heads / spec.kv_heads + SHARE_MAX - 1) / SHARE_MAX, ahead: 3 })
    }
}

/// Every row's keys are cut into chunks of one length; a short row has fewer of them than the longest, and no threadgroup has
/// more than `chunk` keys to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Chunks of the longest row; a power of two, so that few sizes of partial results occur.
    pub splits: u32,
    /// Keys, a multiple of a block's.
    pub chunk: u32,
}

impl Plan {
    /// The fewest splits that keep a GPU busy. `each`: threadgroups of one chunk, that is K heads times parts.
    pub fn of(lengths: &[u32], window: Option<u32>, each: u32) -> Plan {
        let mut plan = Plan::with(lengths, window, 1);
        while plan.groups(lengths, window) * u64::from(each) < BUSY && plan.splits < SPLITS_MAX {
            let finer = Plan::with(lengths, window, plan.splits * 2);
            if finer.chunk < CHUNK_MIN {
                break;
            }
            plan = finer;
        }
        plan
    }

    /// The longest row in `splits` chunks.
    pub fn with(lengths: &[u32], window: Option<u32>, splits: u32) -> Plan {
        let longest = lengths.iter().map(|l| seen(*l, window)).max().unwrap_or(0).max(1);
        Plan { splits, chunk: longest.div_ceil(splits).next_multiple_of(BLOCK_TOKENS) }
    }

    /// Chunks of all rows.
    fn groups(&self, lengths: &[u32], window: Option<u32>) -> u64 {
        lengths.iter().map(|l| u64::from(seen(*l, window).div_ceil(self.chunk))).sum()
    }
}

/// Keys that a row's query sees.
fn seen(length: u32, window: Option<u32>) -> u32 {
    window.map_or(length, |w| length.min(w))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_fill_the_gpu_and_no_more() {
        let table: [(usize, u32, Option<u32>, u32, Plan); 8] = [
            (1, 1, None, 8, Plan { splits: 1, chunk: 32 }),
            (1, 512, None, 8, Plan { splits: 8, chunk: 64 }),
            (8, 512, None, 8, Plan { splits: 4, chunk: 128 }),
            (32, 512, None, 8, Plan { splits: 1, chunk: 512 }),
            (64, 512, None, 8, Plan { splits: 1, chunk: 512 }),
            (16, 4096, None, 8, Plan { splits: 2, chunk: 2048 }),
            (1, 1 << 17, None, 8, Plan { splits: 32, chunk: 4096 }),
            (1, 4096, Some(256), 8, Plan { splits: 4, chunk: 64 }),
        ];
        for (rows, length, window, each, want) in table {
            assert_eq!(Plan::of(&vec![length; rows], window, each), want, "{rows} rows of {length}, window {window:?}");
        }
    }

    #[test]
    fn every_key_is_in_a_chunk_and_the_count_of_splits_is_a_power_of_two() {
        for longest in [1u32, 31, 32, 33, 64, 65, 1000, 4097, 100_000] {
            for window in [None, Some(1), Some(100), Some(5000)] {
                for rows in [1usize, 3, 40] {
                    let lengths: Vec<u32> = (0..rows as u32).map(|i| (longest / (i + 1)).max(1)).collect();
                    let plan = Plan::of(&lengths, window, 2);
                    assert!(plan.splits.is_power_of_two() && plan.splits <= SPLITS_MAX);
                    assert!(plan.splits * plan.chunk >= seen(longest, window), "{plan:?} for {longest}, window {window:?}");
                    assert_eq!(plan.chunk % BLOCK_TOKENS, 0);
                }
            }
        }
    }

    #[test]
    fn shapes_without_a_kernel_are_named() {
        let spec = Spec { heads: 8, kv_heads: 2, head_dim: 128, dtype: Dtype::Bfloat16 };
        assert_eq!(Tuning::of(&spec), Ok(Tuning { lanes: 16, deep: 2, warps: 4, parts: 1, ahead: 3 }));
        assert!(Tuning::of(&Spec { head_dim: 100, ..spec }).unwrap_err().contains("head_dim 100"));
        assert!(Tuning::of(&Spec { heads: 7, ..spec }).unwrap_err().contains("7 heads over 2"));
        assert!(Tuning::of(&Spec { dtype: Dtype::Int8, ..spec }).unwrap_err().contains("Int8"));
    }
}
