//! What the next step should do: how many tokens of which rows, and who is to be admitted. Reads only; changes nothing.
//!
//! Decoding rows go first, a token each. Prompts get what is left, and never nothing: a share is kept for them. In a step that
//! decodes, all prompts together get one chunk, so that the longest stall of a stream is one chunk. Of it the oldest prompt gets
//! at least half, hence it ends; the shortest go before the others, hence a short one does not wait behind a long one; and a
//! quarter or more is kept for whoever is admitted, hence a free place in the batch is filled at once.

use super::row::{Next, Row};
use super::{Live, Scheduler};
use kv::SeqId;

/// Rows of the queue that are looked at beyond the free places, in case the first ones are held back.
const LOOK_AHEAD: usize = 64;

/// What a step should do.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Decoding rows first, then prefilling ones; each sort oldest first.
    pub(super) parts: Vec<Part>,
    pub(super) entrants: Vec<Entrant>,
}

/// `count` tokens of a running row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) seq: SeqId,
    pub(super) life: u64,
    pub(super) count: u32,
}

/// A row to be admitted, for `chunk` tokens of its prompt at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entrant {
    pub(super) seq: SeqId,
    pub(super) chunk: u32,
    /// Blocks that must be left over once its whole prompt is in.
    pub(super) spare: u32,
}

/// A prompt that is being computed.
struct Prompt {
    seq: SeqId,
    life: u64,
    left: u32,
    given: u32,
}

impl Scheduler {
    pub(super) fn plan(&self) -> Plan {
        let (mut decodes, mut prompts) = self.runnable();
        let places = self.limits.batch - self.running.len() as u32;
        let candidates = self.candidates(places as usize);
        let any_prompt = !prompts.is_empty() || !candidates.is_empty();
        self.fit_decodes(&mut decodes, any_prompt);

        let rest = self.limits.step_tokens - decodes.len() as u32;
        let mut budget = if decodes.is_empty() { rest } else { rest.min(self.limits.prefill_chunk) };
        let entering = !candidates.is_empty() && !self.admission_short;
        self.share(&mut prompts, &mut budget, entering);
        let takes = self.entrants_chunks(&candidates, &mut budget);
        for prompt in &mut prompts {
            self.give(prompt, &mut budget, u32::MAX);
        }

        let mut parts: Vec<Part> = decodes;
        parts.extend(prompts.iter().filter(|p| p.given > 0).map(|p| Part { seq: p.seq, life: p.life, count: p.given }));
        let entrants = self.with_spare(&parts, takes);
        Plan { parts, entrants }
    }

    /// Running rows that can do something, oldest first.
    fn runnable(&self) -> (Vec<Part>, Vec<Prompt>) {
        let (mut decodes, mut prompts) = (Vec::new(), Vec::new());
        for (row, live) in self.live_rows() {
            let (seq, life) = (row.seq(), live.life);
            match row.next(live) {
                Next::Decode => decodes.push(Part { seq, life, count: 1 }),
                Next::Prefill(left) => prompts.push(Prompt { seq, life, left, given: 0 }),
                Next::Wait => {}
            }
        }
        (decodes, prompts)
    }

    /// Running rows, oldest first.
    pub(super) fn live_rows(&self) -> impl Iterator<Item = (&Row, &Live)> {
        self.running.iter().filter_map(|seq| {
            let row = self.rows.get(seq)?;
            Some((row, row.live.as_ref()?))
        })
    }

    /// Leaves out decoding rows that the step has no room for: those that ran last.
    fn fit_decodes(&self, decodes: &mut Vec<Part>, any_prompt: bool) {
        let step = self.limits.step_tokens;
        let kept = if any_prompt { self.limits.prefill_chunk.min(step / 2) } else { 0 };
        let room = (step - kept) as usize;
        if decodes.len() <= room {
            return;
        }
        let last = |part: &Part| self.rows[&part.seq].live.as_ref().and_then(|live| live.last_step);
        let mut by_turn: Vec<Part> = decodes.clone();
        by_turn.sort_by_key(last);
        by_turn.truncate(room);
        decodes.retain(|part| by_turn.iter().any(|kept| kept.seq == part.seq));
    }

    /// Divides the budget among running prompts: half to the oldest, the shortest first among the others.
    fn share(&self, prompts: &mut [Prompt], budget: &mut u32, entering: bool) {
        let alone = prompts.len() == 1 && !entering;
        let Some((oldest, others)) = prompts.split_first_mut() else {
            return;
        };
        let half = if alone { *budget } else { budget.div_ceil(2) };
        self.give(oldest, budget, half);
        let kept = if entering { *budget / 2 } else { 0 };
        *budget -= kept;
        let mut shortest: Vec<&mut Prompt> = others.iter_mut().collect();
        shortest.sort_by_key(|prompt| prompt.left);
        for prompt in shortest {
            self.give(prompt, budget, u32::MAX);
        }
        *budget += kept;
    }

    /// Gives a prompt what it can use, up to `most`.
    fn give(&self, prompt: &mut Prompt, budget: &mut u32, most: u32) {
        let use_ = prompt.left.min(self.limits.prefill_chunk) - prompt.given;
        let more = use_.min(most).min(*budget);
        prompt.given += more;
        *budget -= more;
    }

    /// How much of its prompt each candidate may compute in this step, as long as there is budget.
    fn entrants_chunks(&self, candidates: &[SeqId], budget: &mut u32) -> Vec<(SeqId, u32)> {
        let mut takes = Vec::new();
        for seq in candidates {
            let row = &self.rows[seq];
            let left = row.known() - self.sealed_for(row);
            let chunk = left.min(self.limits.prefill_chunk).min(*budget);
            if chunk == 0 {
                break;
            }
            *budget -= chunk;
            takes.push((*seq, chunk));
        }
        takes
    }

    /// An admission must leave what the rows before it, and the row itself, need soon: the rest of their known tokens, and a block to
    /// decode into. Never more than a row can come to in all, or holds at one time, so that a row that is alone always fits.
    fn with_spare(&self, parts: &[Part], takes: Vec<(SeqId, u32)>) -> Vec<Entrant> {
        let limits = &self.limits;
        let soon = |row: &Row, given_up: u32| {
            let next_block = row.known().saturating_add(row.flying).saturating_add(limits.block_tokens);
            limits.blocks_at_once(next_block.min(row.most()), given_up)
        };
        let mut spare = 0;
        for (row, live) in self.live_rows() {
            let count = parts.iter().find(|part| part.seq == row.seq()).map_or(0, |part| part.count);
            let have = limits.blocks_for(live.launched + count).max(live.table.len() as u32) - live.given_up;
            spare += soon(row, live.given_up).saturating_sub(have);
        }
        let mut entrants = Vec::with_capacity(takes.len());
        for (seq, chunk) in takes {
            let row = &self.rows[&seq];
            // Its whole prompt the pool looks at itself.
            let own = soon(row, 0) - limits.blocks_at_once(row.known(), 0);
            entrants.push(Entrant { seq, chunk, spare: spare + own });
            let shared = self.sealed_for(row);
            let behind = limits.behind(shared, shared);
            spare += soon(row, behind).saturating_sub(limits.blocks_for(shared + chunk) - behind);
        }
        entrants
    }

    /// Who may be admitted, in order: preempted rows by age, then the queue. A row whose token is still in flight has to wait for
    /// it, and nobody goes past a preempted row.
    fn candidates(&self, places: usize) -> Vec<SeqId> {
        let mut chosen: Vec<SeqId> = Vec::new();
        for seq in self.resuming.values() {
            if chosen.len() == places || self.rows[seq].flying > 0 {
                return chosen;
            }
            if !self.is_held_back(&self.rows[seq], &chosen) {
                chosen.push(*seq);
            }
        }
        for seq in self.queue.in_order(&self.accounts).take(places + LOOK_AHEAD) {
            if chosen.len() >= places {
                break;
            }
            if !self.is_held_back(&self.rows[&seq], &chosen) {
                chosen.push(seq);
            }
        }
        chosen
    }

    /// Whether much of the row's prompt is being computed for another row right now: it waits until those blocks are sealed, and
    /// then shares them. The wait ends with that row's prefill at the latest.
    fn is_held_back(&self, row: &Row, chosen: &[SeqId]) -> bool {
        if !self.limits.prefix_cache {
            return false;
        }
        let size = self.limits.block_tokens;
        let have = self.sealed_for(row);
        let worth_it = |other: &Row| {
            let gain = row.common(other, size).saturating_sub(have);
            gain > 0 && gain.saturating_mul(4) >= row.submit.prompt.len() as u32
        };
        self.live_rows().any(|(other, _)| worth_it(other)) || chosen.iter().any(|seq| worth_it(&self.rows[seq]))
    }

    /// Tokens of the row's prompt that running rows have sealed: so many, at least, it need not compute.
    fn sealed_for(&self, row: &Row) -> u32 {
        if !self.limits.prefix_cache {
            return 0;
        }
        let size = self.limits.block_tokens;
        let shared = |(other, live): (&Row, &Live)| row.common(other, size).min(live.sealed / size * size);
        let most = self.live_rows().map(shared).max().unwrap_or(0);
        most.min(row.known() - 1)
    }
}
