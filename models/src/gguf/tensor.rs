//! Tensor kinds and where a tensor's bytes lie.

/// How a tensor's elements are stored. Blocks are those of ggml (`ggml/src/ggml-common.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    F32,
    F16,
    BF16,
    /// 32 elements in 18 bytes: f16 scale, 16 bytes of nibbles.
    Q4_0,
    /// 32 elements in 20 bytes: f16 scale, f16 minimum, 16 bytes of nibbles.
    Q4_1,
    /// 32 elements in 34 bytes: f16 scale, 32 signed bytes.
    Q8_0,
}

/// What messages say a tensor may be.
pub(super) const ALLOWED: &str = "F32, F16, BF16, Q4_0, Q4_1 or Q8_0";

/// ggml's names of the other kinds, so that a message can say what the file holds.
const OTHERS: [(u32, &str); 26] = [
    (6, "Q5_0"),
    (7, "Q5_1"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (12, "Q4_K"),
    (13, "Q5_K"),
    (14, "Q6_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
];

impl Kind {
    /// By ggml's number; an unknown number comes back as its name, for the message.
    pub(super) fn from_ggml(number: u32) -> Result<Self, String> {
        Ok(match number {
            0 => Kind::F32,
            1 => Kind::F16,
            2 => Kind::Q4_0,
            3 => Kind::Q4_1,
            8 => Kind::Q8_0,
            30 => Kind::BF16,
            _ => {
                let name = OTHERS.iter().find(|(n, _)| *n == number);
                return Err(name.map_or_else(|| format!("number {number}"), |(_, s)| s.to_string()));
            }
        })
    }

    /// Elements in one block; 1 for plain floats.
    pub const fn block_len(self) -> usize {
        match self {
            Kind::F32 | Kind::F16 | Kind::BF16 => 1,
            Kind::Q4_0 | Kind::Q4_1 | Kind::Q8_0 => 32,
        }
    }

    /// Bytes of one block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Kind::F32 => 4,
            Kind::F16 | Kind::BF16 => 2,
            Kind::Q4_0 => 18,
            Kind::Q4_1 => 20,
            Kind::Q8_0 => 34,
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// One tensor of a file. The file is known to hold all of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    pub name: String,
    /// Row-major, outermost axis first (`[rows, cols]` of a weight): the reverse of ggml's order.
    pub shape: Vec<usize>,
    pub kind: Kind,
    /// Where its bytes start, from the start of the file.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

impl TensorInfo {
    /// Elements of the last axis.
    pub fn cols(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// The product of all axes but the last: 1 for a vector.
    pub fn rows(&self) -> usize {
        self.shape[..self.shape.len().saturating_sub(1)].iter().product()
    }

    /// Bytes of one row; a row is a whole number of blocks.
    pub fn row_bytes(&self) -> usize {
        self.cols() / self.kind.block_len() * self.kind.block_bytes()
    }
}
