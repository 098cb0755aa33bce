//! What a model's KV memory costs: bytes of a token, of a block and of a row's recurrent state, and what a budget is worth.

use crate::window::Window;

/// Which positions a layer's attention looks at, and whose K and V it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// All of them.
    Full,
    /// The last so many. Where every layer has a window, a row gives back what lies behind the largest ([`Geometry::window`]). In a
    /// mixture nothing goes back, because blocks are numbered alike in every layer: the layer is billed for all positions.
    Window(u32),
    /// Those that the layer of this index looks at, in that layer's K and V; it has none of its own.
    SharedWith(usize),
}

/// How the elements of K and V are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elements {
    /// Each by itself, in so many bytes: 4 for f32, 2 for bf16 and f16.
    Dense { bytes: u32 },
    /// MLX's affine quantisation (`mlx.core.quantize`), along the head's dimension: so many bits an element, packed, and for every
    /// `group` elements a scale and a bias of `constant_bytes` each.
    Affine { bits: u32, group: u32, constant_bytes: u32 },
}

/// What MLX's affine quantisation takes.
const BITS: [u32; 6] = [2, 3, 4, 5, 6, 8];
const GROUPS: [u32; 3] = [32, 64, 128];

impl Elements {
    /// Bytes of `count` elements in a row.
    fn bytes(self, count: u32) -> u64 {
        let count = u64::from(count);
        match self {
            Elements::Dense { bytes } => count * u64::from(bytes),
            Elements::Affine { bits, group, constant_bytes } => count * u64::from(bits) / 8 + count / u64::from(group) * 2 * u64::from(constant_bytes),
        }
    }

    /// Why a head of `head_dim` elements cannot be kept so.
    fn check(self, head_dim: u32) -> Result<(), String> {
        let Elements::Affine { bits, group, .. } = self else {
            return Ok(());
        };
        if !BITS.contains(&bits) {
            return Err(format!("K and V of {bits} bits: {BITS:?} are possible"));
        }
        if !GROUPS.contains(&group) || !head_dim.is_multiple_of(group) {
            return Err(format!("K and V in groups of {group}: {GROUPS:?} are possible, if they divide head_dim, {head_dim}"));
        }
        Ok(())
    }
}

/// One attention layer. Layers with no KV memory (recurrent ones) are not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    pub span: Span,
    pub kv_heads: u32,
    /// Elements of one head's K, and of its V.
    pub head_dim: u32,
    pub elements: Elements,
}

impl Layer {
    /// Bytes of K and V for one token.
    pub fn token_bytes(&self) -> u64 {
        match self.span {
            Span::SharedWith(_) => 0,
            Span::Full | Span::Window(_) => 2 * u64::from(self.kv_heads) * self.elements.bytes(self.head_dim),
        }
    }
}

/// A model's KV memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    layers: Vec<Layer>,
    block_tokens: u32,
    state_bytes: u64,
}

impl Geometry {
    /// Errors if a layer shares with one that has no K and V of its own, if no layer has any, or if elements cannot be kept so.
    pub fn new(layers: Vec<Layer>, block_tokens: u32) -> Result<Geometry, String> {
        let checks = layers.iter().enumerate();
        checks.clone().try_for_each(|(index, layer)| layer.elements.check(layer.head_dim).map_err(|why| format!("layer {index}: {why}")))?;
        for (index, layer) in checks {
            let Span::SharedWith(donor) = layer.span else {
                continue;
            };
            let owns = layers.get(donor).is_some_and(|d| d.token_bytes() > 0);
            if !owns {
                return Err(format!("layer {index} shares K and V with layer {donor}, which has none"));
            }
        }
        let geometry = Geometry { layers, block_tokens, state_bytes: 0 };
        if geometry.block_bytes() == 0 {
            return Err("no layer has K and V: a block would be no bytes".into());
        }
        Ok(geometry)
    }

    /// The same, with recurrent layers whose state takes so many bytes a row, whatever the row's length.
    pub fn with_state(self, state_bytes: u64) -> Geometry {
        Geometry { state_bytes, ..self }
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

    /// Bytes of one row's recurrent state over all layers.
    pub fn state_bytes(&self) -> u64 {
        self.state_bytes
    }

    /// The largest window, in positions, if every layer that has K and V of its own has one.
    pub fn window(&self) -> Option<u32> {
        self.layers.iter().try_fold(0, |largest, layer| match layer.span {
            Span::Full => None,
            Span::Window(tokens) => Some(tokens.max(largest)),
            Span::SharedWith(_) => Some(largest),
        })
    }

    /// [`Self::window`] for rows of which so many positions may be ahead.
    pub fn window_with(&self, ahead: u32) -> Option<Window> {
        self.window().map(|tokens| Window { tokens, ahead })
    }

    /// Bytes that `blocks` usable blocks and the states of `rows` rows take. Block 0, which stays zero on the device, is one more.
    pub fn bytes(&self, blocks: u64, rows: u32) -> u64 {
        self.states(rows).saturating_add(blocks.saturating_add(1).saturating_mul(self.block_bytes()))
    }

    /// Usable blocks in a budget: the states of `rows` rows are billed before, and block 0 too. May be 0.
    pub fn blocks(&self, budget_bytes: u64, rows: u32) -> u32 {
        let physical = budget_bytes.saturating_sub(self.states(rows)) / self.block_bytes();
        // Positions of all blocks, and some arithmetic on them, must fit 32 bits.
        physical.saturating_sub(1).min(u64::from(u32::MAX / self.block_tokens / 4)) as u32
    }

    fn states(&self, rows: u32) -> u64 {
        self.state_bytes.saturating_mul(u64::from(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(span: Span) -> Layer {
        Layer { span, kv_heads: 8, head_dim: 128, elements: Elements::Dense { bytes: 2 } }
    }

    #[test]
    fn bytes_of_a_block() {
        // Llama 3 8B: 32 layers, 8 KV heads of 128, bf16: 128 KiB a token, 4 MiB a block.
        let llama = Geometry::new(vec![layer(Span::Full); 32], 32).unwrap();
        assert_eq!(llama.token_bytes(), 128 << 10);
        assert_eq!(llama.block_bytes(), 4 << 20);
        let rows: &[(u64, u32)] = &[(0, 0), ((4 << 20) - 1, 0), (4 << 20, 0), (8 << 20, 1), (1 << 30, 255), (u64::MAX, u32::MAX / 128)];
        for (budget, blocks) in rows {
            assert_eq!(llama.blocks(*budget, 16), *blocks, "{budget}");
        }
        assert_eq!((llama.bytes(0, 9), llama.bytes(255, 9)), (4 << 20, 1 << 30));
    }

    #[test]
    fn elements_as_mlx_keeps_them() {
        let affine = |bits, group, constant_bytes| Elements::Affine { bits, group, constant_bytes };
        // A head of 128 by hand: the packed elements, and a scale and a bias for each group.
        let rows = [
            (Elements::Dense { bytes: 4 }, 512),
            (Elements::Dense { bytes: 2 }, 256),
            (affine(8, 64, 2), 128 + 2 * 4),
            (affine(8, 32, 2), 128 + 4 * 4),
            (affine(6, 64, 2), 96 + 2 * 4),
            (affine(5, 128, 2), 80 + 4),
            (affine(4, 64, 2), 64 + 2 * 4),
            (affine(4, 64, 4), 64 + 2 * 8),
            (affine(3, 32, 2), 48 + 4 * 4),
            (affine(2, 128, 2), 32 + 4),
        ];
        for (elements, head) in rows {
            let geometry = Geometry::new(vec![Layer { elements, ..layer(Span::Full) }; 3], 32).unwrap();
            assert_eq!(geometry.token_bytes(), 3 * 2 * 8 * head, "{elements:?}");
        }
    }

    #[test]
    fn elements_that_mlx_does_not_keep_are_named() {
        let rows = [(7, 64, 128, "7 bits"), (4, 48, 96, "groups of 48"), (4, 64, 96, "divide head_dim, 96"), (4, 0, 128, "groups of 0")];
        for (bits, group, head_dim, part) in rows {
            let elements = Elements::Affine { bits, group, constant_bytes: 2 };
            let error = Geometry::new(vec![layer(Span::Full), Layer { elements, head_dim, ..layer(Span::Full) }], 32).unwrap_err();
            assert!(error.starts_with("layer 1: ") && error.contains(part) && error.contains("are possible"), "{error}");
        }
    }

    #[test]
    fn states_are_billed_before_blocks() {
        let hybrid = Geometry::new(vec![layer(Span::Full); 32], 32).unwrap().with_state(1 << 20);
        let block = hybrid.block_bytes();
        let rows = [(0, 16, 0), (16 << 20, 16, 0), ((16 << 20) + 2 * block - 1, 16, 0), ((16 << 20) + 2 * block, 16, 1), (2 * block, 0, 1), (2 * block, 1, 0)];
        for (budget, batch, blocks) in rows {
            assert_eq!(hybrid.blocks(budget, batch), blocks, "{budget} bytes, {batch} rows");
        }
        assert_eq!(hybrid.bytes(1, 16), (16 << 20) + 2 * block);
        assert_eq!((hybrid.state_bytes(), hybrid.block_tokens()), (1 << 20, 32));
        assert_eq!((hybrid.bytes(u64::MAX, u32::MAX), hybrid.blocks(u64::MAX, u32::MAX)), (u64::MAX, u32::MAX / 128));
    }

    #[test]
    fn windows_are_billed_and_sharers_are_not() {
        let mixed = [Span::Full, Span::Window(512), Span::SharedWith(0), Span::SharedWith(1)];
        let geometry = Geometry::new(mixed.map(layer).to_vec(), 32).unwrap();
        assert_eq!(geometry.token_bytes(), 2 * layer(Span::Full).token_bytes());
        assert_eq!(geometry.layers(), mixed.map(layer));
    }

    #[test]
    fn the_window_is_the_largest_if_every_layer_has_one() {
        let rows: &[(&[Span], Option<u32>)] = &[
            (&[Span::Full], None),
            (&[Span::Window(512)], Some(512)),
            (&[Span::Window(512), Span::Window(4096), Span::Window(7)], Some(4096)),
            (&[Span::Window(512), Span::Full, Span::Window(512)], None),
            (&[Span::Window(512), Span::SharedWith(0)], Some(512)),
            (&[Span::Full, Span::Window(512), Span::SharedWith(1)], None),
        ];
        for (spans, window) in rows {
            let geometry = Geometry::new(spans.iter().map(|span| layer(*span)).collect(), 32).unwrap();
            assert_eq!(geometry.window(), *window, "{spans:?}");
            assert_eq!(geometry.window_with(9), window.map(|tokens| Window { tokens, ahead: 9 }));
        }
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
