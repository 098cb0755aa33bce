//! Plays prompts through a model as steps, in a chosen layout, and collects logits and greedy ids.

use super::golden::Prompt;
use crate::engine::EngineError;
use crate::model::{Model, failed};
use kv::step::BLOCK_TOKENS;
use kv::{BlockId, Input, SeqId, Step, StepId, StepRow};

/// Which blocks a sequence gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    InOrder,
    /// Spread over the pool, out of order.
    Scattered,
}

/// What a prompt gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// `[positions, vocab]`.
    pub logits: Vec<f32>,
    pub greedy: Vec<u32>,
    /// Distance of the two best logits at each greedy id.
    pub gaps: Vec<f32>,
    /// Probability of each greedy id.
    pub sure: Vec<f32>,
}

struct Row<'a> {
    prompt: &'a Prompt,
    table: Vec<BlockId>,
    done: usize,
    out: Outcome,
}

impl Row<'_> {
    /// The next tokens to feed, if any.
    fn next(&self, chunk: Option<usize>) -> Option<Vec<u32>> {
        let ids = &self.prompt.ids;
        if self.done < ids.len() {
            let end = chunk.map_or(ids.len(), |c| (self.done + c).min(ids.len()));
            return Some(ids[self.done..end].to_vec());
        }
        // The last greedy id was drawn from what came before it; feeding it would prove nothing more.
        let fed = self.done - ids.len();
        (fed + 1 < self.prompt.greedy.len()).then(|| vec![self.out.greedy[fed]])
    }
}

/// Runs all prompts of one batch together, each prompt whole or in chunks, then its greedy continuation.
pub fn play(model: &mut Model, prompts: &[&Prompt], chunk: Option<usize>, layout: Layout) -> Result<Vec<Outcome>, EngineError> {
    let mut tables = Tables::new(layout, model.blocks());
    let mut rows: Vec<Row> = prompts
        .iter()
        .map(|p| Row {
            prompt: p,
            table: tables.take(positions(p)),
            done: 0,
            out: Outcome { logits: Vec::new(), greedy: Vec::new(), gaps: Vec::new(), sure: Vec::new() },
        })
        .collect();
    for id in 1.. {
        let inputs: Vec<(usize, Vec<u32>)> = rows.iter().enumerate().filter_map(|(i, r)| r.next(chunk).map(|t| (i, t))).collect();
        if inputs.is_empty() {
            break;
        }
        step(model, &mut rows, inputs, id)?;
    }
    Ok(rows.into_iter().map(|r| r.out).collect())
}

fn step(model: &mut Model, rows: &mut [Row], inputs: Vec<(usize, Vec<u32>)>, id: u64) -> Result<(), EngineError> {
    let step_row = |(i, ids): &(usize, Vec<u32>)| {
        let r = &rows[*i];
        let blocks = (r.done + ids.len()).div_ceil(BLOCK_TOKENS as usize);
        StepRow { seq: SeqId(*i as u64), input: Input::Tokens(ids.clone()), start: r.done as u32, table: r.table[..blocks].to_vec(), draw: None }
    };
    let step = Step { id: StepId(id), copies: Vec::new(), rows: inputs.iter().map(step_row).collect() };
    let logits = logits(model, &step)?;
    for ((i, ids), mine) in inputs.iter().zip(logits) {
        let row = &mut rows[*i];
        row.done += ids.len();
        if row.done >= row.prompt.ids.len() {
            let last = &mine[mine.len() - row.prompt.vocab..];
            let (best, gap) = best(last);
            row.out.sure.push(1.0 / last.iter().map(|z| (z - last[best as usize]).exp()).sum::<f32>());
            row.out.greedy.push(best);
            row.out.gaps.push(gap);
        }
        if row.done <= row.prompt.ids.len() {
            row.out.logits.extend(mine);
        }
    }
    Ok(())
}

/// Logits of every token of a step, `[tokens, vocab]` a row, in the step's order of rows.
pub fn logits(model: &mut Model, step: &Step) -> Result<Vec<Vec<f32>>, EngineError> {
    let vocab = model.config.vocab;
    let mut out: Vec<Vec<f32>> = step.rows.iter().map(|r| vec![0.0; r.input.count() as usize * vocab]).collect();
    model.copy(step)?;
    for packing in model.passes(step, &[])? {
        let passed = model.pass(step, packing, None)?;
        let p = &passed.packing;
        let logits = model.logits(&passed, &(0..p.owners.len() as u32).collect::<Vec<u32>>())?;
        logits.eval().map_err(failed)?;
        for ((row, position), token) in p.owners.iter().zip(&p.positions).zip(logits.as_slice::<f32>().chunks(vocab)) {
            let at = (position - step.rows[*row].start) as usize * vocab;
            out[*row][at..at + vocab].copy_from_slice(token);
        }
    }
    Ok(out)
}

/// Index of the largest, the first of equals, and its distance to the next.
pub fn best(z: &[f32]) -> (u32, f32) {
    let (mut top, mut second) = ((0, f32::NEG_INFINITY), f32::NEG_INFINITY);
    for (i, x) in z.iter().enumerate() {
        if *x > top.1 {
            second = top.1;
            top = (i as u32, *x);
        } else if *x > second {
            second = *x;
        }
    }
    (top.0, top.1 - second)
}

/// Positions that a prompt and its answer take.
fn positions(prompt: &Prompt) -> usize {
    prompt.ids.len() + prompt.greedy.len()
}

/// Blocks that are enough for all of them together, with room to scatter: a power of two.
pub(super) fn blocks(prompts: &[Prompt]) -> u32 {
    let all: usize = prompts.iter().map(|p| positions(p).div_ceil(BLOCK_TOKENS as usize)).sum();
    (all as u32).next_power_of_two().max(64)
}

/// Hands out blocks; block 0 is nobody's.
struct Tables {
    layout: Layout,
    blocks: u32,
    next: u32,
}

impl Tables {
    fn new(layout: Layout, blocks: u32) -> Tables {
        Tables { layout, blocks, next: 0 }
    }

    fn take(&mut self, positions: usize) -> Vec<BlockId> {
        let count = positions.div_ceil(BLOCK_TOKENS as usize) as u32;
        let from = self.next;
        self.next += count;
        let place = |n: u32| match self.layout {
            Layout::InOrder => n + 1,
            // 27 and a power of two share no factor, so that this visits every block once, far from its neighbours.
            Layout::Scattered => (n * 27 + 40) % self.blocks + 1,
        };
        (from..self.next).map(|n| BlockId(place(n))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn many_prompts_have_blocks_of_their_own() {
        for count in [1, 2, 16, 17, 200] {
            let prompt = Prompt { ids: vec![1; 83], logits: Vec::new(), vocab: 8, greedy: vec![1; 16], exact: None };
            let prompts = vec![prompt; count];
            let blocks = blocks(&prompts);
            for layout in [Layout::InOrder, Layout::Scattered] {
                let mut tables = Tables::new(layout, blocks);
                let all: Vec<u32> = prompts.iter().flat_map(|p| tables.take(positions(p))).map(|b| b.0).collect();
                assert_eq!(all.len(), count * 4);
                assert!(all.iter().all(|b| (1..=blocks).contains(b)), "{count} prompts, {layout:?}");
                assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{count} prompts, {layout:?}: a block has two owners");
            }
        }
    }
}
