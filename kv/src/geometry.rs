//! Bytes of a block, from the model's layers.

/// Which positions a layer's attention looks at, and whose K and V it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// All of them.
    Full,
    /// The last so many. Blocks are numbered alike in every layer, so the layer is billed for all positions.
    Window(u32),
    /// Reads the K and V of the layer of this index; has none of its own.
    SharedWith(usize),
}

/// One attention layer. Layers with no KV memory (recurrent ones) are not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    pub span: Span,
    pub kv_heads: u32,
    /// Elements of one head's K, and of its V.
    pub head_dim: u32,
    /// Bytes of one element: 4 for f32, 2 for bf16 and f16.
    pub element_bytes: u32,
}

impl Layer {
    /// Bytes of K and V for one token.
    pub fn token_bytes(&self) -> u64 {
        match self.span {
            Span::SharedWith(_) => 0,
            Span::Full | Span::Window(_) => 2 * u64::from(self.kv_heads) * u64::from(self.head_dim) * u64::from(self.element_bytes),
        }
    }
}

/// A model's KV memory: what a token and a block cost over all layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    layers: Vec<Layer>,
    block_tokens: u32,
}

impl Geometry {
    /// Errors if a layer shares with one that has no K and V of its own, or if no layer has any.
    pub fn new(layers: Vec<Layer>, block_tokens: u32) -> Result<Geometry, String> {
        for (index, layer) in layers.iter().enumerate() {
            let Span::SharedWith(donor) = layer.span else {
                continue;
            };
            let owns = layers.get(donor).is_some_and(|d| d.token_bytes() > 0);
            if !owns {
                return Err(format!("layer {index} shares K and V with layer {donor}, which has none"));
            }
        }
        let geometry = Geometry { layers, block_tokens };
        if geometry.block_bytes() == 0 {
            return Err("no layer has K and V: a block would be no bytes".into());
        }
        Ok(geometry)
    }

    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    pub fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    /// Bytes of one token over all layers.
    pub fn token_bytes(&self) -> u64 {
        self.layers.iter().map(Layer::token_bytes).sum()
    }

    /// Bytes of one block over all layers.
    pub fn block_bytes(&self) -> u64 {
        self.token_bytes() * u64::from(self.block_tokens)
    }

    /// Usable blocks in a budget: block 0, which stays zero on the device, is billed too but not counted here. May be 0.
    pub fn blocks(&self, budget_bytes: u64) -> u32 {
        let physical = budget_bytes / self.block_bytes();
        u32::try_from(physical.saturating_sub(1)).unwrap_or(u32::MAX - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(span: Span) -> Layer {
        Layer { span, kv_heads: 8, head_dim: 128, element_bytes: 2 }
    }

    #[test]
    fn bytes_of_a_block() {
        // Llama 3 8B: 32 layers, 8 KV heads of 128, bf16: 128 KiB a token, 4 MiB a block.
        let llama = Geometry::new(vec![layer(Span::Full); 32], 32).unwrap();
        assert_eq!(llama.token_bytes(), 128 << 10);
        assert_eq!(llama.block_bytes(), 4 << 20);
        let rows: &[(u64, u32)] = &[(0, 0), ((4 << 20) - 1, 0), (4 << 20, 0), (8 << 20, 1), (1 << 30, 255)];
        for (budget, blocks) in rows {
            assert_eq!(llama.blocks(*budget), *blocks, "{budget}");
        }
    }

    #[test]
    fn windows_are_billed_and_sharers_are_not() {
        let mixed = [Span::Full, Span::Window(512), Span::SharedWith(0), Span::SharedWith(1)];
        let geometry = Geometry::new(mixed.map(layer).to_vec(), 32).unwrap();
        assert_eq!(geometry.token_bytes(), 2 * layer(Span::Full).token_bytes());
    }

    #[test]
    fn refuses_a_sharer_without_donor() {
        let rows: &[&[Span]] = &[&[Span::SharedWith(0)], &[Span::Full, Span::SharedWith(7)], &[Span::Full, Span::SharedWith(2), Span::SharedWith(0)], &[]];
        for spans in rows {
            let layers = spans.iter().map(|s| layer(*s)).collect();
            assert!(Geometry::new(layers, 32).is_err(), "{spans:?}");
        }
    }
}
