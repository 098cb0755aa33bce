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
    /// Room that the parts need, oldest row first.
    pub(super) growths: Vec<Growth>,
    pub(super) entrants: Vec<Entrant>,
}

/// `count` tokens of a running row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) seq: SeqId,
    pub(super) life: u64,
    pub(super) count: u32,
}

/// Blocks for `tokens` tokens in all of a running row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    pub(super) seq: SeqId,
    pub(super) life: u64,
    pub(super) tokens: u32,
}

/// A row to be admitted, for `chunk` tokens of its prompt at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entrant {
    pub(super) seq: SeqId,
    pub(super) chunk: u32,
    /// Blocks that must be left over once its whole prompt is in.
    pub(super) spare: u32,
}

/// A running row: looked up once a plan.
struct Running<'a> {
    row: &'a Row,
    live: &'a Live,
    /// Tokens that it gets in this step.
    count: u32,
}

/// A prompt that is being computed: `at` among the running rows.
struct Prompt {
    at: usize,
    left: u32,
    given: u32,
}

/// A row that may be admitted; `shared` tokens of its prompt, at least, it need not compute.
struct Candidate<'a> {
    row: &'a Row,
    shared: u32,
}

impl Scheduler {
    pub(super) fn plan(&self) -> Plan {
        let mut running: Vec<Running> = self.live_rows().map(|(row, live)| Running { row, live, count: 0 }).collect();
        let (mut decodes, mut prompts) = runnable(&running);
        let places = self.limits.batch - self.running.len() as u32;
        let candidates = self.candidates(places as usize, &running);
        let any_prompt = !prompts.is_empty() || !candidates.is_empty();
        self.fit_decodes(&mut decodes, &running, any_prompt);

        let rest = self.limits.step_tokens - decodes.len() as u32;
        let mut budget = if decodes.is_empty() { rest } else { rest.min(self.limits.prefill_chunk) };
        let entering = !candidates.is_empty() && !self.admission_short;
        self.share(&mut prompts, &mut budget, entering);
        let takes = self.entrants_chunks(&candidates, &mut budget);
        for prompt in &mut prompts {
            self.give(prompt, &mut budget, u32::MAX);
        }

        let counts = decodes.iter().map(|&at| (at, 1)).chain(prompts.iter().map(|p| (p.at, p.given))).filter(|(_, count)| *count > 0);
        let mut parts = Vec::with_capacity(decodes.len() + prompts.len());
        for (at, count) in counts {
            let Running { row, live, count: of } = &mut running[at];
            *of = count;
            parts.push(Part { seq: row.seq(), life: live.life, count });
        }
        let entrants = if takes.is_empty() { Vec::new() } else { self.with_spare(&running, takes) };
        Plan { parts, growths: self.growths(&running), entrants }
    }

    /// Running rows, oldest first.
    pub(super) fn live_rows(&self) -> impl Iterator<Item = (&Row, &Live)> {
        self.running.iter().filter_map(|seq| {
            let row = self.rows.get(seq)?;
            Some((row, row.live.as_ref()?))
        })
    }

    /// Leaves out decoding rows that the step has no room for: those that ran last.
    fn fit_decodes(&self, decodes: &mut Vec<usize>, running: &[Running], any_prompt: bool) {
        let step = self.limits.step_tokens;
        let kept = if any_prompt { self.limits.prefill_chunk.min(step / 2) } else { 0 };
        let room = (step - kept) as usize;
        if decodes.len() <= room {
            return;
        }
        decodes.sort_by_key(|&at| running[at].live.last_step);
        decodes.truncate(room);
        decodes.sort_unstable();
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
    fn entrants_chunks<'a>(&self, candidates: &'a [Candidate<'a>], budget: &mut u32) -> Vec<(&'a Candidate<'a>, u32)> {
        let mut takes = Vec::new();
        for candidate in candidates {
            let left = candidate.row.known() - candidate.shared;
            let chunk = left.min(self.limits.prefill_chunk).min(*budget);
            if chunk == 0 {
                break;
            }
            *budget -= chunk;
            takes.push((candidate, chunk));
        }
        takes
    }

    fn growths(&self, running: &[Running]) -> Vec<Growth> {
        let growth = |Running { row, live, count }: &Running| {
            let tokens = live.launched + count;
            let grows = self.limits.blocks_for(tokens) > live.table.len() as u32;
            grows.then(|| Growth { seq: row.seq(), life: live.life, tokens })
        };
        running.iter().filter_map(growth).collect()
    }

    /// An admission must leave what the rows before it, and the row itself, need soon: the rest of their known tokens, and a block to
    /// decode into. Never more than a row can come to in all, or holds at one time, so that a row that is alone always fits.
    fn with_spare(&self, running: &[Running], takes: Vec<(&Candidate, u32)>) -> Vec<Entrant> {
        let limits = &self.limits;
        let soon = |row: &Row, given_up: u32| {
            let next_block = row.known().saturating_add(row.flying).saturating_add(limits.block_tokens);
            limits.blocks_at_once(next_block.min(row.most()), given_up)
        };
        let mut spare = 0;
        for Running { row, live, count } in running {
            let have = limits.blocks_for(live.launched + count).max(live.table.len() as u32) - live.given_up;
            spare += soon(row, live.given_up).saturating_sub(have);
        }
        let mut entrants = Vec::with_capacity(takes.len());
        for (Candidate { row, shared }, chunk) in takes {
            // Its whole prompt the pool looks at itself.
            let own = soon(row, 0) - limits.blocks_at_once(row.known(), 0);
            entrants.push(Entrant { seq: row.seq(), chunk, spare: spare + own });
            let behind = limits.behind(*shared, *shared);
            spare += soon(row, behind).saturating_sub(limits.blocks_for(shared + chunk) - behind);
        }
        entrants
    }

    /// Who may be admitted, in order: preempted rows by age, then the queue. A row whose token is still in flight has to wait for
    /// it, as one has for the mask of its next draw, and nobody goes past a preempted row, unless that is paused.
    fn candidates<'a>(&'a self, places: usize, running: &[Running]) -> Vec<Candidate<'a>> {
        let mut chosen: Vec<Candidate> = Vec::new();
        if places == 0 {
            return chosen;
        }
        for seq in self.resuming.values().filter(|seq| !self.rows[*seq].paused) {
            if chosen.len() == places || self.rows[seq].flying > 0 || !self.rows[seq].ready() {
                return chosen;
            }
            chosen.extend(self.unless_held_back(&self.rows[seq], running, &chosen));
        }
        for seq in self.queue.in_order(&self.accounts).take(places + LOOK_AHEAD) {
            if chosen.len() >= places {
                break;
            }
            chosen.extend(self.unless_held_back(&self.rows[&seq], running, &chosen));
        }
        chosen
    }

    /// The row, unless much of its prompt is being computed for another row right now: then it waits until those blocks are sealed,
    /// and shares them. The wait ends with that row's prefill at the latest.
    fn unless_held_back<'a>(&self, row: &'a Row, running: &[Running], chosen: &[Candidate]) -> Option<Candidate<'a>> {
        if !self.limits.prefix_cache {
            return Some(Candidate { row, shared: 0 });
        }
        let size = self.limits.block_tokens;
        // Of what running rows have sealed at least so much need not be computed, and of what they will have, so much.
        let (mut shared, mut soon) = (0, 0);
        for Running { row: other, live, .. } in running {
            let common = row.common(other, size);
            shared = shared.max(common.min(live.sealed / size * size));
            soon = soon.max(common);
        }
        shared = shared.min(row.known() - 1);
        soon = chosen.iter().map(|other| row.common(other.row, size)).fold(soon, u32::max);
        // Its last token a row computes in any case: with all others there, nothing is left to wait for.
        let gain = if shared == row.known() - 1 { 0 } else { soon.saturating_sub(shared) };
        let is_held_back = gain.saturating_mul(4) >= row.submit.prompt.len() as u32;
        (!is_held_back).then_some(Candidate { row, shared })
    }
}

/// Running rows that can do something, by their places, oldest first: those that decode, and prompts.
fn runnable(running: &[Running]) -> (Vec<usize>, Vec<Prompt>) {
    let (mut decodes, mut prompts) = (Vec::with_capacity(running.len()), Vec::new());
    for (at, Running { row, live, .. }) in running.iter().enumerate() {
        match row.next(live) {
            Next::Decode => decodes.push(at),
            Next::Prefill(left) => prompts.push(Prompt { at, left, given: 0 }),
            Next::Wait => {}
        }
    }
    (decodes, prompts)
}
