//! Quantised blocks of ggml, repacked as the affine groups of MLX: `value = q * scale + bias`.
//!
//! Bit for bit what MLX's own loader does (`mlx/io/gguf_quants.cpp`), so that its quantised matrix products apply.

use super::{GgufError, Kind};
use half::f16;

/// Elements that share a scale and a bias: one ggml block.
const GROUP: usize = 32;

/// Some rows in MLX's layout. Rows are whole numbers of groups, so they follow each other without gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct Affine {
    /// Bits of one element: 4 or 8.
    pub bits: u8,
    /// Elements of one group: 32.
    pub group: usize,
    /// Element `i` is in word `i * bits / 32`, counted from the lowest bits up.
    pub words: Vec<u32>,
    /// One of each for a group.
    pub scales: Vec<f16>,
    pub biases: Vec<f16>,
}

/// Repacks whole blocks. Fails for kinds that are plain floats, and when `bytes` is not a whole number of blocks.
pub fn affine(kind: Kind, bytes: &[u8]) -> Result<Affine, GgufError> {
    let bits = match kind {
        Kind::Q4_0 | Kind::Q4_1 => 4,
        Kind::Q8_0 => 8,
        Kind::F32 | Kind::F16 | Kind::BF16 => {
            let reason = "has no scales; Q4_0, Q4_1 and Q8_0 have".into();
            return Err(GgufError::Blocks { kind, reason });
        }
    };
    let size = kind.block_bytes();
    if !bytes.len().is_multiple_of(size) {
        let reason = format!("{} bytes are not a multiple of {size}", bytes.len());
        return Err(GgufError::Blocks { kind, reason });
    }
    let blocks = bytes.len() / size;
    let mut out = Affine {
        bits,
        group: GROUP,
        words: Vec::with_capacity(blocks * bits as usize),
        scales: Vec::with_capacity(blocks),
        biases: Vec::with_capacity(blocks),
    };
    for block in bytes.chunks_exact(size) {
        let scale = half_at(block, 0);
        let bias = match kind {
            Kind::Q4_1 => half_at(block, 2),
            Kind::Q4_0 => times(scale, -8.0),
            _ => times(scale, -128.0),
        };
        out.scales.push(scale);
        out.biases.push(bias);
        match kind {
            Kind::Q8_0 => signed_bytes(&block[2..], &mut out.words),
            _ => nibbles(&block[size - GROUP / 2..], &mut out.words),
        }
    }
    Ok(out)
}

fn half_at(block: &[u8], at: usize) -> f16 {
    f16::from_le_bytes([block[at], block[at + 1]])
}

fn times(scale: f16, by: f32) -> f16 {
    f16::from_f32(scale.to_f32() * by)
}

/// ggml keeps elements 0..16 in the low nibbles of its 16 bytes and 16..32 in the high ones; MLX wants them in order.
fn nibbles(block: &[u8], words: &mut Vec<u32>) {
    for (half, shift) in [(&block[..8], 0), (&block[8..], 0), (&block[..8], 4), (&block[8..], 4)] {
        let word = half.iter().enumerate().fold(0u32, |w, (i, b)| w | u32::from((b >> shift) & 15) << (4 * i));
        words.push(word);
    }
}

/// From -128..128 to 0..256: the top bit turned over.
fn signed_bytes(block: &[u8], words: &mut Vec<u32>) {
    for q in block.chunks_exact(4) {
        words.push(u32::from_le_bytes([q[0], q[1], q[2], q[3]]) ^ 0x8080_8080);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Element `i` and what it stands for, read back the way MLX reads it.
    fn values(a: &Affine) -> Vec<f32> {
        let per_word = 32 / a.bits as usize;
        let mask = (1u32 << a.bits) - 1;
        (0..a.words.len() * per_word)
            .map(|i| {
                let q = a.words[i / per_word] >> (i % per_word * a.bits as usize) & mask;
                let g = i / a.group;
                q as f32 * a.scales[g].to_f32() + a.biases[g].to_f32()
            })
            .collect()
    }

    fn block(head: &[f32], body: impl Iterator<Item = u8>) -> Vec<u8> {
        let mut b: Vec<u8> = head.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect();
        b.extend(body);
        b
    }

    /// Bytes j = 0..16 hold j below and 15 - j above, so the elements are 0, 1, … 15, 15, 14, … 0.
    fn ramp() -> impl Iterator<Item = u8> {
        (0..16u8).map(|j| j | (15 - j) << 4)
    }

    fn ramp_values() -> impl Iterator<Item = f32> {
        (0..16).chain((0..16).rev()).map(|q| q as f32)
    }

    #[test]
    fn q4_0_is_centred_on_eight() {
        let a = affine(Kind::Q4_0, &block(&[0.5], ramp())).unwrap();
        assert_eq!(a.words, [0x7654_3210, 0xFEDC_BA98, 0x89AB_CDEF, 0x0123_4567]);
        assert_eq!(a.biases, [f16::from_f32(-4.0)]);
        let want: Vec<f32> = ramp_values().map(|q| (q - 8.0) * 0.5).collect();
        assert_eq!(values(&a), want);
    }

    #[test]
    fn q4_1_has_its_own_minimum_and_blocks_follow_each_other() {
        let mut bytes = block(&[0.25, -1.0], ramp());
        bytes.extend(block(&[2.0, 3.0], std::iter::repeat_n(0x21, 16)));
        let a = affine(Kind::Q4_1, &bytes).unwrap();
        let mut want: Vec<f32> = ramp_values().map(|q| q * 0.25 - 1.0).collect();
        want.extend([1.0 * 2.0 + 3.0; 16]);
        want.extend([2.0 * 2.0 + 3.0; 16]);
        assert_eq!(values(&a), want);
        assert_eq!((a.words.len(), a.scales.len(), a.biases.len()), (8, 2, 2));
    }

    #[test]
    fn q8_0_is_centred_on_128() {
        let body = (0..32).map(|i| (i * 8 - 128) as i8 as u8);
        let a = affine(Kind::Q8_0, &block(&[0.125], body)).unwrap();
        assert_eq!(a.words[0], 0x1810_0800);
        let want: Vec<f32> = (0..32).map(|i| (i * 8 - 128) as f32 * 0.125).collect();
        assert_eq!(values(&a), want);
    }

    #[test]
    fn a_zero_scale_keeps_the_sign_that_mlx_gives_its_bias() {
        let a = affine(Kind::Q4_0, &block(&[0.0], ramp())).unwrap();
        assert_eq!(a.biases[0].to_bits(), 0x8000);
    }

    #[test]
    fn what_cannot_be_repacked_says_why() {
        let text = |k, n| affine(k, &vec![0; n]).unwrap_err().to_string();
        assert_eq!(text(Kind::Q4_0, 19), "Q4_0: 19 bytes are not a multiple of 18");
        assert!(text(Kind::BF16, 2).contains("has no scales"));
    }
}
