//! Rows of MLX affine quantisation, and what they stand for: `value = q * scale + bias`, a scale and bias a group.
//!
//! MLX packs the q of a row as one little-endian stream of `bits` each (for 3, 5 and 6 bits too, where a q may straddle
//! bytes), and computes in the type of the scales: the product is rounded, then the sum (mlx `dequantize`, CPU).

use super::Float;

/// Some rows, as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct AffineRows {
    pub bits: usize,
    pub group: usize,
    /// Elements of a row.
    pub cols: usize,
    pub words: Vec<u32>,
    /// Of `scales` and `biases`, which are little-endian bytes, one element of each for a group.
    pub float: Float,
    pub scales: Vec<u8>,
    pub biases: Vec<u8>,
}

impl AffineRows {
    /// Words of one row.
    pub fn row_words(&self) -> usize {
        self.cols * self.bits / 32
    }

    pub fn rows(&self) -> usize {
        self.words.len() / self.row_words().max(1)
    }

    /// Appends the values, row after row.
    pub fn widen(&self, out: &mut Vec<f32>) {
        let (mut scales, mut biases) = (Vec::new(), Vec::new());
        self.float.widen(&self.scales, &mut scales);
        self.float.widen(&self.biases, &mut biases);
        let groups = self.cols / self.group;
        // A group's values are few, so they are worked out once each and then looked up.
        let mut values = vec![0f32; 1 << self.bits];
        for (row, words) in self.words.chunks_exact(self.row_words()).enumerate() {
            let mut stream = Stream { words, bits: self.bits, at: 0 };
            for g in row * groups..(row + 1) * groups {
                for (q, v) in values.iter_mut().enumerate() {
                    *v = self.float.round(self.float.round(q as f32 * scales[g]) + biases[g]);
                }
                out.extend((0..self.group).map(|_| values[stream.next()]));
            }
        }
    }
}

/// Reads q after q.
struct Stream<'a> {
    words: &'a [u32],
    bits: usize,
    at: usize,
}

impl Stream<'_> {
    fn next(&mut self) -> usize {
        let (word, shift) = (self.at / 32, self.at % 32);
        let low = self.words[word] >> shift;
        let high = if shift + self.bits > 32 { self.words[word + 1] << (32 - shift) } else { 0 };
        self.at += self.bits;
        ((low | high) & ((1 << self.bits) - 1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx_rs::{Array, Dtype, ops};

    /// Every width and group that MLX can unpack gives MLX's own bits, in each type of scales.
    #[test]
    fn widens_to_the_bits_that_mlx_gives() {
        let _turn = crate::mlx::turn();
        let w: Vec<f32> = (0..4 * 256).map(|i| ((i * 7919 % 1009) as f32 / 504.0 - 1.0) * if i % 97 == 0 { 5.0 } else { 1.0 }).collect();
        for float in [Float::F32, Float::F16, Float::BF16] {
            let dense = Array::from_slice(&w, &[4, 256]).as_dtype(float.mlx()).unwrap();
            for (bits, group) in [2, 3, 4, 5, 6, 8].into_iter().flat_map(|b| [32, 64, 128].map(|g| (b, g))) {
                let (q, s, b) = ops::quantize(&dense, group as i32, bits as i32).unwrap();
                let want = ops::dequantize(&q, &s, &b, group as i32, bits as i32).unwrap().as_dtype(Dtype::Float32).unwrap();
                let (rows, mut got) = (rows_of(bits, group, float, &q, &s, &b), Vec::new());
                rows.widen(&mut got);
                let want: Vec<u32> = want.as_slice::<f32>().iter().map(|x| x.to_bits()).collect();
                let got: Vec<u32> = got.iter().map(|x| x.to_bits()).collect();
                assert_eq!(got, want, "{bits} bits, groups of {group}, {float:?}");
            }
        }
    }

    fn rows_of(bits: usize, group: usize, float: Float, q: &Array, s: &Array, b: &Array) -> AffineRows {
        let bytes = |a: &Array| -> Vec<u8> {
            let wide = a.as_dtype(Dtype::Float32).unwrap();
            wide.eval().unwrap();
            let put = |x: &f32| match float {
                Float::F32 => x.to_le_bytes().to_vec(),
                Float::F16 => half::f16::from_f32(*x).to_le_bytes().to_vec(),
                Float::BF16 => half::bf16::from_f32(*x).to_le_bytes().to_vec(),
            };
            wide.as_slice::<f32>().iter().flat_map(put).collect()
        };
        q.eval().unwrap();
        AffineRows { bits, group, cols: 256, words: q.as_slice::<u32>().to_vec(), float, scales: bytes(s), biases: bytes(b) }
    }

    /// Seven bits and odd groups exist in no kernel of MLX; a row read back is what was put in.
    #[test]
    fn widens_widths_that_straddle_words() {
        let q: Vec<u32> = (0..64).map(|i| i * 37 % 128).collect();
        let mut words = vec![0u32; 14];
        for (i, v) in q.iter().enumerate() {
            let at = i * 7;
            words[at / 32] |= v << (at % 32);
            if at % 32 + 7 > 32 {
                words[at / 32 + 1] |= v >> (32 - at % 32);
            }
        }
        let two = |a: f32, b: f32| [a.to_le_bytes(), b.to_le_bytes()].concat();
        let rows = AffineRows { bits: 7, group: 32, cols: 64, words, float: Float::F32, scales: two(1.0, 2.0), biases: two(0.0, -1.0) };
        let mut got = Vec::new();
        rows.widen(&mut got);
        let want: Vec<f32> = q.iter().enumerate().map(|(i, v)| if i < 32 { *v as f32 } else { *v as f32 * 2.0 - 1.0 }).collect();
        assert_eq!(got, want);
    }
}
