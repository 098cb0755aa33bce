//! A model that needs no weights: its next token is a hash of the whole prefix.
//!
//! It obeys block tables as a real engine does: every token's value goes to its slot of a block pool, and a draw reads the row's
//! prefix back through its table. A wrong table, a wrong position, a block reused too early or a missed copy therefore gives
//! wrong tokens. [`next`] is the oracle: the same answer without a pool.

use crate::engine::{Engine, EngineError, EngineInfo, Memory};
use kv::step::BLOCK_TOKENS;
use kv::{BlockId, Draw, Input, Logprobs, RowFault, RowResult, Step, StepDone, StepRow};
use std::collections::VecDeque;
use std::time::Instant;

pub mod text;

/// Bytes that a token's K and V would take; one slot of the pool stands for them.
const TOKEN_BYTES: u64 = 64;

/// The size of a synthetic model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    pub name: String,
    pub vocab: u32,
    pub context: u32,
    /// Usable blocks, numbered from 1; block 0 stays empty as on a device.
    pub blocks: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { name: "synthetic".into(), vocab: text::VOCAB, context: 4096, blocks: 1024 }
    }
}

/// The engine.
pub struct Synthetic {
    info: EngineInfo,
    /// One value a slot, 0 where nothing was ever written; slot = block × 32 + offset.
    pool: Vec<u64>,
    launched: VecDeque<(StepDone, Instant)>,
    /// What the newest launched step drew: the inputs of `FromPrevious`.
    previous: Vec<RowResult>,
}

impl Synthetic {
    pub fn new(shape: Shape) -> Synthetic {
        let block_bytes = u64::from(BLOCK_TOKENS) * TOKEN_BYTES;
        let info = EngineInfo {
            name: shape.name,
            context: shape.context,
            vocab: shape.vocab,
            blocks: shape.blocks,
            block_bytes,
            window: None,
            weight_bytes: 0,
            dtype: "u64".into(),
            device: "cpu".into(),
            files: 0,
        };
        let slots = (shape.blocks as usize + 1) * BLOCK_TOKENS as usize;
        Synthetic { info, pool: vec![0; slots], launched: VecDeque::new(), previous: Vec::new() }
    }

    fn slot(&self, table: &[BlockId], position: u32) -> Result<usize, EngineError> {
        let block = table.get((position / BLOCK_TOKENS) as usize);
        let block = block.ok_or_else(|| wrong(format!("position {position} is beyond a table of {} blocks", table.len())))?;
        if block.0 == 0 || block.0 > self.info.blocks {
            return Err(wrong(format!("block {} is outside 1..={}", block.0, self.info.blocks)));
        }
        Ok(block.0 as usize * BLOCK_TOKENS as usize + (position % BLOCK_TOKENS) as usize)
    }

    fn copy(&mut self, from: BlockId, to: BlockId) -> Result<(), EngineError> {
        let n = BLOCK_TOKENS as usize;
        let from = self.slot(&[from], 0)?;
        let to = self.slot(&[to], 0)?;
        self.pool.copy_within(from..from + n, to);
        Ok(())
    }

    fn write(&mut self, row: &StepRow) -> Result<(), EngineError> {
        let previous;
        let tokens = match &row.input {
            Input::Tokens(tokens) => tokens.as_slice(),
            Input::FromPrevious => {
                let drawn = self.previous.iter().find(|r| r.seq == row.seq);
                let drawn = drawn.ok_or_else(|| wrong(format!("the step before drew nothing for row {}", row.seq.0)))?;
                // A faulted row has no token, yet its next step may be launched already; what it computes is dropped.
                previous = [drawn.token.as_ref().copied().unwrap_or(0)];
                &previous
            }
        };
        for (position, &token) in (row.start..).zip(tokens) {
            let slot = self.slot(&row.table, position)?;
            self.pool[slot] = entry(position, token);
        }
        Ok(())
    }

    fn draw(&self, row: &StepRow, draw: &Draw) -> Result<RowResult, EngineError> {
        let mut hash = EMPTY;
        for position in 0..row.start + row.input.count() {
            hash = mix(hash ^ self.pool[self.slot(&row.table, position)?]);
        }
        let token = after(hash, draw, self.info.vocab).ok_or(RowFault::NotFinite);
        Ok(RowResult { seq: row.seq, logprobs: draw.logprobs.map(|top| logprobs(&token, top, self.info.vocab)), token })
    }
}

impl Engine for Synthetic {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn launch(&mut self, step: &Step) -> Result<(), EngineError> {
        let started = Instant::now();
        for &(from, to) in &step.copies {
            self.copy(from, to)?;
        }
        // All writes come before all reads, as in one packed pass: rows that share a slot by mistake disturb each other.
        for row in &step.rows {
            self.write(row)?;
        }
        let drawn = step.rows.iter().filter_map(|row| row.draw.as_ref().map(|draw| self.draw(row, draw)));
        let results = drawn.collect::<Result<Vec<_>, _>>()?;
        self.previous.clone_from(&results);
        self.launched.push_back((StepDone { id: step.id, results, micros: 0 }, started));
        Ok(())
    }

    fn finish(&mut self) -> Result<StepDone, EngineError> {
        let (done, started) = self.launched.pop_front().ok_or_else(|| wrong("no step is in flight".into()))?;
        Ok(StepDone { micros: started.elapsed().as_micros() as u64, ..done })
    }

    fn memory(&self) -> Memory {
        let bytes = u64::from(self.info.blocks + 1) * self.info.block_bytes;
        Memory { active: bytes, cache: 0, peak: bytes }
    }
}

/// The token that follows `prefix`: what the engine must answer whatever the tables, the batch and the depth were.
/// None if every id is banned.
pub fn next_or_fault(prefix: &[u32], draw: &Draw, vocab: u32) -> Option<u32> {
    let hash = (0..).zip(prefix).fold(EMPTY, |hash, (position, &token)| extend(hash, position, token));
    after(hash, draw, vocab)
}

/// [`next_or_fault`] for a draw that bans less than the whole vocabulary.
///
/// # Panics
/// If every id is banned.
pub fn next(prefix: &[u32], draw: &Draw, vocab: u32) -> u32 {
    match next_or_fault(prefix, draw, vocab) {
        Some(token) => token,
        None => panic!("all of {vocab} ids are banned"),
    }
}

/// The hash of a prefix of no tokens.
pub const EMPTY: u64 = 0;

/// The hash of a prefix and the token at `position` after it: a long prefix need not be read again for every token.
pub fn extend(prefix: u64, position: u32, token: u32) -> u64 {
    mix(prefix ^ entry(position, token))
}

/// The token drawn after a prefix of this hash, or None if no id may be drawn. Greedy takes the hash itself; a positive
/// temperature mixes in the row's key `(seed, index)`, edits mix themselves in, and nothing of a neighbour does.
pub fn after(hash: u64, draw: &Draw, vocab: u32) -> Option<u32> {
    let mut hash = hash;
    if draw.sampling.temperature > 0.0 {
        hash = mix(hash ^ mix(draw.sampling.seed ^ mix(u64::from(draw.index) + 1)));
    }
    for edit in &draw.edits {
        let change = [edit.add, edit.scale, edit.minus].iter().fold(u64::from(edit.id), |all, part| mix(all ^ u64::from(part.to_bits())));
        hash = mix(hash ^ change);
    }
    let first = (hash % u64::from(vocab)) as u32;
    (0..vocab).map(|i| (first + i) % vocab).find(|token| draw.allows(*token))
}

/// What is said of a token: it has half of all probability, the id after it a quarter, and so on.
fn logprobs(token: &Result<u32, RowFault>, top: u8, vocab: u32) -> Box<Logprobs> {
    let first = token.as_ref().map_or(0, |token| *token);
    let of = |place: u32| (place as f32 + 1.0) * 0.5f32.ln();
    let top = (0..u32::from(top).min(vocab)).map(|place| ((first + place) % vocab, of(place))).collect();
    Box::new(Logprobs { drawn: of(0), top })
}

/// What a slot holds for a token: never 0, and different at every position.
fn entry(position: u32, token: u32) -> u64 {
    mix((u64::from(position) << 32) | u64::from(token)) | 1
}

/// A bijection that spreads every input bit over the word (the finaliser of SplitMix64, Steele et al., OOPSLA 2014).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn wrong(what: String) -> EngineError {
    EngineError::Step(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kv::{Sampling, SeqId, StepId};

    fn draw(temperature: f32, seed: u64, index: u32) -> Draw {
        Draw::new(Sampling { temperature, top_p: 1.0, top_k: 0, min_p: 0.0, seed }, index)
    }

    fn row(seq: u64, tokens: &[u32], start: u32, table: &[u32], draw: Option<Draw>) -> StepRow {
        let table = table.iter().map(|&b| BlockId(b)).collect();
        StepRow { seq: SeqId(seq), input: Input::Tokens(tokens.to_vec()), start, table, draw }
    }

    fn tokens(engine: &mut Synthetic, id: u64, copies: &[(u32, u32)], rows: Vec<StepRow>) -> Vec<u32> {
        let copies = copies.iter().map(|&(a, b)| (BlockId(a), BlockId(b))).collect();
        engine.launch(&Step { id: StepId(id), copies, rows }).unwrap();
        engine.finish().unwrap().results.into_iter().map(|r| r.token.unwrap()).collect()
    }

    #[test]
    fn chunks_tables_and_neighbours_do_not_matter() {
        let prompt: Vec<u32> = (0..70).collect();
        let want = next(&prompt, &draw(0.0, 0, 0), text::VOCAB);
        let mut engine = Synthetic::new(Shape { blocks: 8, ..Shape::default() });
        tokens(&mut engine, 1, &[], vec![row(1, &prompt[..40], 0, &[7, 2], None), row(2, &[9], 0, &[3], Some(draw(0.0, 0, 0)))]);
        let got = tokens(&mut engine, 2, &[(2, 5)], vec![row(1, &prompt[40..], 40, &[7, 5, 1], Some(draw(0.0, 0, 0)))]);
        assert_eq!(got, [want]);
    }

    #[test]
    fn a_wrong_table_position_or_stale_block_gives_other_tokens() {
        let prompt: Vec<u32> = (0..40).collect();
        let want = next(&prompt, &draw(0.0, 0, 0), 1 << 20);
        let wrongs = [("swapped", 32, [2, 1]), ("stale", 32, [3, 2]), ("shifted", 31, [1, 2])];
        for (name, start, table) in wrongs {
            let mut engine = Synthetic::new(Shape { vocab: 1 << 20, blocks: 4, ..Shape::default() });
            tokens(&mut engine, 1, &[], vec![row(1, &prompt[..32], 0, &[1, 2], None)]);
            let got = tokens(&mut engine, 2, &[], vec![row(1, &prompt[32..], start, &table, Some(draw(0.0, 0, 0)))]);
            assert_ne!(got, [want], "{name}");
        }
    }

    #[test]
    fn sampling_depends_on_seed_and_index_only_above_zero() {
        let at = |t, seed, index| next(&[1, 2, 3], &draw(t, seed, index), 1 << 30);
        assert_eq!(at(0.0, 1, 0), at(0.0, 2, 5));
        assert_eq!(at(0.7, 1, 0), at(0.7, 1, 0));
        assert_ne!(at(0.7, 1, 0), at(0.7, 2, 0));
        assert_ne!(at(0.7, 1, 0), at(0.7, 1, 1));
    }

    #[test]
    fn banned_ids_are_not_drawn() {
        let mut d = draw(0.0, 0, 0);
        d.banned = (0..511).collect();
        assert_eq!(next(&[4], &d, 512), 511);
        d.banned.push(511);
        assert_eq!(next_or_fault(&[4], &d, 512), None);
    }

    #[test]
    fn what_no_device_could_do_is_an_error() {
        let bad = [
            row(1, &[1; 33], 0, &[1], None),
            row(1, &[1], 0, &[0], None),
            row(1, &[1], 0, &[99], None),
            StepRow { input: Input::FromPrevious, ..row(1, &[], 1, &[1], None) },
        ];
        for row in bad {
            let mut engine = Synthetic::new(Shape { blocks: 4, ..Shape::default() });
            let step = Step { id: StepId(1), copies: vec![], rows: vec![row] };
            assert!(matches!(engine.launch(&step), Err(EngineError::Step(_))), "{step:?}");
        }
        assert!(Synthetic::new(Shape::default()).finish().is_err());
    }
}
