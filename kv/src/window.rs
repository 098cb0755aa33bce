//! Attention that looks back so far and no further: which of a row's positions are still read, and how many blocks it then holds.

/// A model's window, where every layer has one. What lies behind it is read by no later step, and goes back while the row runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Positions that a query sees, its own included, in the layer that sees most.
    pub tokens: u32,
    /// Positions of a row that may be launched and not yet sealed, and those of its next chunk: steps in flight × tokens of a chunk.
    pub ahead: u32,
}

/// Blocks that a row's window and what is ahead of it may take beyond their own: one because they may begin within a block, one for
/// the source of a copy.
const MORE: u32 = 2;

impl Window {
    /// The first position that a step reads which starts at position `start`: no later step reads any below it.
    pub fn reads_from(&self, start: u32) -> u32 {
        start.saturating_add(1).saturating_sub(self.tokens)
    }

    /// Blocks that a row holds at one time at most, however long it gets. With less than this, a row that is alone might never end.
    pub fn blocks_max(&self, block_tokens: u32) -> u32 {
        self.tokens.saturating_add(self.ahead).div_ceil(block_tokens).saturating_add(MORE)
    }
}

/// Blocks that a row holds at one time at most on its way to `tokens` tokens, its first `given_up` blocks having gone back already.
pub fn blocks_at_once(window: Option<Window>, block_tokens: u32, tokens: u32, given_up: u32) -> u32 {
    let all = tokens.div_ceil(block_tokens).saturating_sub(given_up);
    window.map_or(all, |window| all.min(window.blocks_max(block_tokens)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_sees_itself_and_the_positions_before_it() {
        let rows = [(1, 0, 0), (1, 7, 7), (4, 0, 0), (4, 3, 0), (4, 4, 1), (4, 100, 97), (u32::MAX, u32::MAX - 1, 0), (1, u32::MAX, u32::MAX - 1)];
        for (tokens, start, from) in rows {
            assert_eq!(Window { tokens, ahead: 8 }.reads_from(start), from, "window {tokens} at {start}");
        }
    }

    #[test]
    fn a_row_holds_its_own_blocks_or_those_of_its_window() {
        let window = Some(Window { tokens: 100, ahead: 60 });
        let rows = [
            (None, 10_000, 0, 313),
            (None, 10_000, 13, 300),
            (window, 1, 0, 1),
            (window, 224, 0, 7),
            (window, 225, 0, 7),
            (window, 10_000, 0, 7),
            (window, 10_000, 306, 7),
            (window, 10_000, 308, 5),
            (window, 32, 4, 0),
            (Some(Window { tokens: u32::MAX, ahead: u32::MAX }), 10_000, 0, 313),
        ];
        for (window, tokens, given_up, blocks) in rows {
            assert_eq!(blocks_at_once(window, 32, tokens, given_up), blocks, "{tokens} tokens, {given_up} given up, {window:?}");
        }
    }

    /// The bound is enough: whatever a row's chunks are, the blocks from the first position that is read, or not sealed yet, to the last
    /// that is written are no more.
    #[test]
    fn no_row_comes_to_more_than_the_bound() {
        for (block_tokens, tokens, chunk, depth) in (1..=9).flat_map(|b| (1..=20).flat_map(move |w| (1..=12).flat_map(move |c| [(b, w, c, 1), (b, w, c, 2)]))) {
            let window = Window { tokens, ahead: depth * chunk };
            let most = (0..60u32).map(|start| {
                let sealed = start.saturating_sub((depth - 1) * chunk);
                let first = window.reads_from(start).min(sealed) / block_tokens;
                (start + chunk).div_ceil(block_tokens) - first
            });
            let most = most.max().unwrap_or(0);
            assert!(most < window.blocks_max(block_tokens), "{most} blocks of {block_tokens}, {window:?}: and one is for a copy's source");
        }
    }
}
