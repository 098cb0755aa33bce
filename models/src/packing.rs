//! A step laid out for the device: which token goes where, worked out on plain numbers before any array exists.
//!
//! Decode rows come first, longest first, then one chunk a prefilling row. No token stands for nobody: only the *keys* of decode
//! rows are padded, and they point at slot 0 or block 0, which is never handed out. How decode rows find their keys depends on who
//! reads them: [`groups`] names every slot, for keys that are gathered; [`tables`] names blocks, for a kernel that reads the pool.

use crate::tiles;
use kv::step::BLOCK_TOKENS;
use kv::{Input, Step, StepRow};

/// A step's tokens in packed order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Packing {
    /// The row of each token, by index in the step.
    pub owners: Vec<usize>,
    /// A token id each, or where in the previous step's samples it stands.
    pub tokens: Vec<Token>,
    pub positions: Vec<u32>,
    /// Where each token's K and V go: block × 32 + offset.
    pub slots: Vec<u32>,
    /// So many tokens, the first ones, attend each for itself: those of decode rows.
    pub decode: usize,
    /// Chunks, in order, after the decode tokens.
    pub chunks: Vec<Chunk>,
    /// Packed index of each drawing row's last token, in the order of `drawing`.
    pub last: Vec<u32>,
    /// The rows that draw (by index in the step), in the step's order.
    pub drawing: Vec<usize>,
    /// Some: the pass has this many tokens, and those beyond `tokens` are nobody's (see [`crate::tiles`]).
    pub width: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    Id(u32),
    /// Index of the row in the previous step's results.
    Previous(u32),
}

/// `lengths.len()` tokens that attend each for itself, longest first, their keys gathered into a rectangle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeGroup {
    pub first: u32,
    /// Keys of each token, its own included.
    pub lengths: Vec<u32>,
    /// Keys that each is given: the longest's, or more.
    pub width: u32,
    /// Slots of the keys, `[lengths.len(), width]`, padded with 0.
    pub slots: Vec<u32>,
}

/// Decode rows by their blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// Keys of each row, its own token included.
    pub lengths: Vec<u32>,
    /// Block numbers `[rows, blocks of the longest]`, padded with 0.
    pub blocks: Vec<u32>,
}

impl DecodeGroup {
    fn new(first: u32, width: u32) -> DecodeGroup {
        DecodeGroup { first, lengths: Vec::new(), width, slots: Vec::new() }
    }

    /// Adds the row's token that has `length` keys.
    fn push(&mut self, row: &StepRow, length: u32) {
        self.lengths.push(length);
        self.slots.extend(slots(row, 0..length));
        self.slots.resize(self.lengths.len() * self.width as usize, 0);
    }
}

/// Tokens `first .. first + count` of one row, which attend to that row's positions `0 .. start + count`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub first: u32,
    pub count: u32,
    pub start: u32,
    /// Slots of the keys, this chunk's own included.
    pub slots: Vec<u32>,
}

/// A group's shortest row has at least this share of its longest one's keys, so that padding costs little.
const GROUP_SHARE: f64 = 0.7;

impl Packing {
    /// Lays a step out. `previous` tells a row's index among the previous step's results.
    pub fn of(step: &Step, previous: impl Fn(&StepRow) -> Option<u32>) -> Result<Packing, String> {
        step.rows.iter().try_for_each(check)?;
        let mut decode: Vec<usize> = (0..step.rows.len()).filter(|i| step.rows[*i].input.count() == 1).collect();
        decode.sort_by_key(|i| (std::cmp::Reverse(step.rows[*i].start), *i));
        let prefill = (0..step.rows.len()).filter(|i| step.rows[*i].input.count() > 1);
        let mut p = Packing::default();
        let mut last_of = vec![0; step.rows.len()];
        for i in decode.iter().copied().chain(prefill) {
            let row = &step.rows[i];
            if row.input.count() > 1 {
                p.chunks.push(chunk(row, p.positions.len() as u32));
            }
            match &row.input {
                Input::Tokens(ids) => p.tokens.extend(ids.iter().map(|id| Token::Id(*id))),
                Input::FromPrevious => p.tokens.push(Token::Previous(known(row, &previous)?)),
            }
            p.owners.extend(std::iter::repeat_n(i, row.input.count() as usize));
            p.positions.extend(row.start..row.start + row.input.count());
            p.slots.extend(slots(row, row.start..row.start + row.input.count()));
            last_of[i] = p.positions.len() as u32 - 1;
        }
        p.drawing = (0..step.rows.len()).filter(|i| step.rows[*i].draw.is_some()).collect();
        p.last = p.drawing.iter().map(|i| last_of[*i]).collect();
        p.decode = decode.len();
        Ok(p)
    }
}

/// Where the row's token stands among what the previous step drew.
pub(crate) fn known(row: &StepRow, previous: impl Fn(&StepRow) -> Option<u32>) -> Result<u32, String> {
    previous(row).ok_or_else(|| format!("row {} draws on a step that did not have it", row.seq.0))
}

pub(crate) fn check(row: &StepRow) -> Result<(), String> {
    let end = u64::from(row.start) + u64::from(row.input.count());
    if row.input.count() == 0 {
        return Err(format!("row {} has no token", row.seq.0));
    }
    if row.table.len() as u64 * u64::from(BLOCK_TOKENS) < end {
        return Err(format!("row {} has {} blocks for {end} positions", row.seq.0, row.table.len()));
    }
    Ok(())
}

/// Block 0 may stand in a row's table only for what no layer reads: whole blocks behind the largest window, if all layers have one.
pub(crate) fn check_window(row: &StepRow, window: Option<u32>) -> Result<(), String> {
    let read_from = window.map_or(0, |window| row.start.saturating_add(1).saturating_sub(window));
    match (0..).zip(&row.table).skip((read_from / BLOCK_TOKENS) as usize).find(|(_, block)| block.0 == 0) {
        None => Ok(()),
        Some((place, _)) => Err(format!("row {} would use block 0 at position {}", row.seq.0, place * BLOCK_TOKENS)),
    }
}

pub(crate) fn slots(row: &StepRow, positions: std::ops::Range<u32>) -> impl Iterator<Item = u32> {
    positions.map(|p| row.table[(p / BLOCK_TOKENS) as usize].0 * BLOCK_TOKENS + p % BLOCK_TOKENS)
}

fn chunk(row: &StepRow, first: u32) -> Chunk {
    let count = row.input.count();
    Chunk { first, count, start: row.start, slots: slots(row, 0..row.start + count).collect() }
}

/// Those tokens of a step laid out as `p` that attend for themselves, with their rows and how many keys each has.
fn alone<'a>(step: &'a Step, p: &'a Packing) -> impl Iterator<Item = (&'a StepRow, u32)> {
    p.owners[..p.decode].iter().zip(&p.positions).map(|(row, position)| (&step.rows[*row], position + 1))
}

/// Decode rows of a step laid out as `p`, in groups that attend together: cut, longest first, wherever the next one would be mostly
/// padding, or, in a pass of fixed width, wherever a token's own position says.
pub fn groups(step: &Step, p: &Packing) -> Vec<DecodeGroup> {
    let mut out: Vec<DecodeGroup> = Vec::new();
    for (at, (row, length)) in (0..).zip(alone(step, p)) {
        let (width, fits): (u32, fn(u32, u32) -> bool) = match p.width {
            Some(_) => (length.next_multiple_of(tiles::KEYS), |width, of| width == of),
            None => (length, |width, of| f64::from(width) >= f64::from(of) * GROUP_SHARE),
        };
        if !out.last().is_some_and(|g| fits(width, g.width)) {
            out.push(DecodeGroup::new(at, width));
        }
        if let Some(group) = out.last_mut() {
            group.push(row, length);
        }
    }
    out
}

/// Decode rows of a step laid out as `p`, by their blocks.
pub fn tables(step: &Step, p: &Packing) -> Tables {
    let lengths: Vec<u32> = alone(step, p).map(|(_, length)| length).collect();
    let width = lengths.iter().max().map_or(0, |l| l.div_ceil(BLOCK_TOKENS)) as usize;
    let mut blocks = vec![0; width * lengths.len()];
    for (n, (row, length)) in alone(step, p).enumerate() {
        let used = length.div_ceil(BLOCK_TOKENS) as usize;
        for (cell, block) in blocks[n * width..].iter_mut().zip(&row.table[..used]) {
            *cell = block.0;
        }
    }
    Tables { lengths, blocks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kv::{BlockId, SeqId, StepId};

    fn row(seq: u64, input: Input, start: u32, table: &[u32]) -> StepRow {
        StepRow { seq: SeqId(seq), input, start, table: table.iter().map(|b| BlockId(*b)).collect(), draw: None }
    }

    fn step(rows: Vec<StepRow>) -> Step {
        Step { id: StepId(1), copies: Vec::new(), rows }
    }

    fn pack(rows: Vec<StepRow>) -> Result<Packing, String> {
        Packing::of(&step(rows), |r| (r.seq == SeqId(9)).then_some(4))
    }

    #[test]
    fn decode_rows_come_first_and_longest_first() {
        let rows = vec![row(1, Input::Tokens(vec![7, 8, 9]), 0, &[5]), row(2, Input::Tokens(vec![10]), 3, &[2]), row(9, Input::FromPrevious, 33, &[1, 4, 6])];
        let p = pack(rows.clone()).unwrap();
        assert_eq!(p.owners, [2, 1, 0, 0, 0]);
        assert_eq!(p.tokens, [Token::Previous(4), Token::Id(10), Token::Id(7), Token::Id(8), Token::Id(9)]);
        assert_eq!(p.positions, [33, 3, 0, 1, 2]);
        assert_eq!(p.slots, [4 * 32 + 1, 2 * 32 + 3, 160, 161, 162]);
        assert_eq!(p.decode, 2);
        let groups = groups(&step(rows.clone()), &p);
        assert_eq!(groups.len(), 2, "4 keys beside 34 would be mostly padding");
        assert_eq!(groups[1], DecodeGroup { first: 1, lengths: vec![4], width: 4, slots: vec![64, 65, 66, 67] });
        assert_eq!(tables(&step(rows), &p), Tables { lengths: vec![34, 4], blocks: vec![1, 4, 2, 0] }, "a block that has no key yet is not named");
        assert_eq!(p.chunks, [Chunk { first: 2, count: 3, start: 0, slots: vec![160, 161, 162] }]);
    }

    #[test]
    fn similar_lengths_share_a_group_and_padding_points_at_slot_zero() {
        let rows = vec![row(1, Input::Tokens(vec![1]), 3, &[1]), row(2, Input::Tokens(vec![2]), 2, &[3])];
        let p = pack(rows.clone()).unwrap();
        assert_eq!(groups(&step(rows), &p), [DecodeGroup { first: 0, lengths: vec![4, 3], width: 4, slots: vec![32, 33, 34, 35, 96, 97, 98, 0] }]);
    }

    #[test]
    fn a_later_chunk_attends_to_all_before_it() {
        let p = pack(vec![row(1, Input::Tokens(vec![1, 2]), 31, &[6, 2])]).unwrap();
        assert_eq!(p.chunks[0].slots.len(), 33);
        assert_eq!(p.chunks[0].slots[31..], [6 * 32 + 31, 2 * 32]);
        assert_eq!(p.decode, 0);
    }

    #[test]
    fn a_table_too_short_is_refused() {
        assert!(pack(vec![row(1, Input::Tokens(vec![1]), 32, &[6])]).unwrap_err().contains("1 blocks for 33 positions"));
        assert!(pack(vec![row(1, Input::Tokens(vec![]), 0, &[6])]).unwrap_err().contains("no token"));
        assert!(pack(vec![row(1, Input::FromPrevious, 0, &[6])]).unwrap_err().contains("did not have it"));
    }
}
