//! Steps as passes of one fixed shape, in which every token is computed alike: what `--deterministic` runs.
//!
//! A matrix kernel picks its order of additions by the shape of its operands, so a row's bits depend on how many others are in
//! the pass, and on whether a token is read with its prompt or decoded by itself. Here every pass has the same width, filled up
//! with tokens of nobody, and every token attends for itself to keys filled up to a multiple of [`KEYS`], a shape that follows from
//! its position alone. So a token's bits follow from its own sequence: alone or among others, computed the first time or again
//! after a preemption, read from a shared prefix or not. What is left to assume, that a matrix product does to each of its rows
//! the same, [`crate::model::Model::keep_shape`] looks at when the model is loaded.

use crate::packing::{Packing, Token, check, known, slots};
use kv::{Input, Step, StepRow};
use std::cmp::Reverse;

/// Keys that a token is given are a multiple of this.
pub const KEYS: u32 = 128;

/// One token of a step.
#[derive(Debug, Clone, Copy)]
struct Cell {
    row: usize,
    token: Token,
    position: u32,
}

/// Lays a step out as passes of `width` tokens, to be run in this order: a token's keys are written in its own pass or before.
pub fn of(step: &Step, previous: impl Fn(&StepRow) -> Option<u32>, width: u32) -> Result<Vec<Packing>, String> {
    step.rows.iter().try_for_each(check)?;
    let mut cells = Vec::new();
    for (row, of) in step.rows.iter().enumerate() {
        match &of.input {
            Input::Tokens(ids) => cells.extend((of.start..).zip(ids).map(|(position, id)| Cell { row, token: Token::Id(*id), position })),
            Input::FromPrevious => cells.push(Cell { row, token: Token::Previous(known(of, &previous)?), position: of.start }),
        }
    }
    Ok(cells.chunks_mut(width as usize).map(|cells| pass(step, cells, width)).collect())
}

fn pass(step: &Step, cells: &mut [Cell], width: u32) -> Packing {
    // Longest first, so that those with equally many keys attend together.
    cells.sort_by_key(|c| Reverse(c.position));
    let mut p = Packing { width: Some(width), ..Packing::default() };
    for (at, cell) in (0..).zip(cells.iter()) {
        let row = &step.rows[cell.row];
        p.owners.push(cell.row);
        p.tokens.push(cell.token);
        p.positions.push(cell.position);
        p.slots.extend(slots(row, cell.position..cell.position + 1));
        p.decode += 1;
        if row.draw.is_some() && cell.position + 1 == row.start + row.input.count() {
            p.drawing.push(cell.row);
            p.last.push(at);
        }
    }
    p
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packing::groups;
    use kv::{BlockId, Draw, Sampling, SeqId, StepId};

    fn row(seq: u64, input: Input, start: u32, draw: bool) -> StepRow {
        let sampling = Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0 };
        let blocks = (start + input.count()).div_ceil(32);
        let table = (0..blocks).map(|b| BlockId(1 + 10 * seq as u32 + b)).collect();
        StepRow { seq: SeqId(seq), input, start, table, draw: draw.then_some(Draw::new(sampling, 0)) }
    }

    fn step(rows: Vec<StepRow>) -> Step {
        Step { id: StepId(1), copies: Vec::new(), rows }
    }

    fn tiled(step: &Step) -> Vec<Packing> {
        of(step, |_| Some(5), 4).unwrap()
    }

    #[test]
    fn every_token_is_in_one_pass_and_what_it_attends_to_is_written_by_then() {
        let passes = tiled(&step(vec![row(1, Input::Tokens((0..6).collect()), 126, true), row(2, Input::FromPrevious, 3, true)]));
        let positions: Vec<&[u32]> = passes.iter().map(|p| &p.positions[..]).collect();
        assert_eq!(positions, [&[129, 128, 127, 126][..], &[131, 130, 3]]);
        assert_eq!(passes[1].owners, [0, 0, 1]);
        assert_eq!(passes[1].tokens, [Token::Id(5), Token::Id(4), Token::Previous(5)]);
        assert_eq!(passes[0].last, [0u32; 0]);
        assert_eq!((&passes[1].drawing[..], &passes[1].last[..]), (&[0, 1][..], &[0, 2][..]));
        assert!(passes.iter().all(|p| p.width == Some(4)));
    }

    #[test]
    fn keys_follow_from_the_position_alone() {
        let step = step(vec![row(1, Input::Tokens((0..4).collect()), 126, false)]);
        let made = groups(&step, &tiled(&step)[0]);
        let groups: Vec<(u32, u32, &[u32])> = made.iter().map(|g| (g.first, g.width, &g.lengths[..])).collect();
        assert_eq!(groups, [(0, 256, &[130, 129][..]), (2, 128, &[128, 127])]);
        assert_eq!(made[1].slots.len(), 256);
        assert_eq!(made[1].slots[254..], [11 * 32 + 3 * 32 + 30, 0], "126 is the last key of the second; padding points at slot 0");
    }
}
