//! One sequence: what is known of it, and, while it runs, how far it is computed.

use super::Flown;
use super::tally::Tally;
use crate::event::{Counts, Reason};
use crate::submit::Submit;
use kv::pool::fold;
use kv::{BlockId, Draw, Ids, Input, Mask, SeqId, StepId, Want};

/// A sequence from submit to its end.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) submit: Submit,
    /// See [`starts`].
    pub(super) starts: Box<[u64]>,
    pub(super) arrived_us: u64,
    /// Place in the order of arrival.
    pub(super) arrival: u64,
    /// Place in the order of first admission; None before it. The smaller, the older.
    pub(super) age: Option<u64>,
    /// Drawn tokens that have arrived.
    pub(super) generated: Vec<u32>,
    /// Draws in flight: tokens that exist on the device only.
    pub(super) flying: u32,
    pub(super) counts: Counts,
    /// Nobody takes its tokens for now: it holds no blocks.
    pub(super) paused: bool,
    /// Of ids that its penalties are about.
    pub(super) tally: Tally,
    /// The draw of that index, and no other yet, may be made with it. None: the row's draws have no masks.
    pub(super) mask: Option<(u32, Mask)>,
    /// What the row holds while it runs.
    pub(super) live: Option<Live>,
}

/// A running row's place in the pool, and its progress. It ends with preemption or loss of the model.
#[derive(Debug)]
pub(super) struct Live {
    /// Number of this admission: results of an earlier one say nothing about these blocks.
    pub(super) life: u64,
    pub(super) table: Vec<BlockId>,
    /// So many blocks at its beginning lie behind the window and were given up: block 0 stands for them.
    pub(super) given_up: u32,
    /// Positions `0 .. launched` are computed or in flight.
    pub(super) launched: u32,
    /// Positions `0 .. sealed` are computed, and the pool was told their tokens.
    pub(super) sealed: u32,
    /// The last step that names the row.
    pub(super) last_step: Option<StepId>,
}

/// What a row can do in the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// One token, then a draw.
    Decode,
    /// Known tokens that remain to be computed.
    Prefill(u32),
    /// Nothing: its last possible token is in flight, or its next draw must be told of the one before it.
    Wait,
}

impl Row {
    pub(super) fn seq(&self) -> SeqId {
        self.submit.seq
    }

    /// Tokens whose ids are here: the prompt and what has arrived.
    pub(super) fn known(&self) -> u32 {
        (self.submit.prompt.len() + self.generated.len()) as u32
    }

    /// Tokens drawn, those in flight included.
    fn drawn(&self) -> u32 {
        self.generated.len() as u32 + self.flying
    }

    /// The most tokens that the row can come to.
    pub(super) fn most(&self) -> u32 {
        self.submit.prompt.len() as u32 + self.submit.max_tokens
    }

    pub(super) fn next(&self, live: &Live) -> Next {
        if self.drawn() >= self.submit.max_tokens {
            return Next::Wait;
        }
        if self.flying > 0 {
            return if self.follows() { Next::Wait } else { Next::Decode };
        }
        let left = self.known() - live.launched;
        if !self.ready() {
            // The last token waits for its draw.
            return if left > 1 { Next::Prefill(left - 1) } else { Next::Wait };
        }
        if left == 1 && !self.generated.is_empty() { Next::Decode } else { Next::Prefill(left) }
    }

    /// Each of its draws needs the ids of all tokens before it: no token may be drawn while another is still on the device.
    fn follows(&self) -> bool {
        self.mask.is_some() || self.tally.counts()
    }

    /// What its next draw needs is here.
    pub(super) fn ready(&self) -> bool {
        self.mask.as_ref().is_none_or(|(index, _)| *index as usize == self.generated.len())
    }

    /// What the pool is to be told of computed positions: their tokens, so that other rows, and this one after preemption, may share
    /// the blocks. Nothing if the row was preempted since: those blocks are not its own any more.
    pub(super) fn seal(&mut self, flown: &Flown) -> Option<Want> {
        let live = self.live.as_mut().filter(|live| live.life == flown.life)?;
        live.sealed = flown.end;
        Some(Want::Seal { seq: flown.seq, tokens: self.ids(flown.start, flown.end) })
    }

    /// A token arrived: gives its index, and why the row ends with it, if it does. That of a row preempted since counts as well:
    /// computing it anew would give the same one.
    pub(super) fn take(&mut self, token: u32) -> (u32, Option<Reason>) {
        let index = self.generated.len() as u32;
        self.flying -= 1;
        self.generated.push(token);
        self.tally.note(token);
        self.counts.generated = index + 1;
        let full = index + 1 == self.submit.max_tokens;
        let end = if self.stops(token, index) { Some(Reason::Stop) } else { full.then_some(Reason::Length) };
        (index, end)
    }

    /// Ids at positions `from .. to`, all of them known.
    pub(super) fn ids(&self, from: u32, to: u32) -> Ids {
        let prompt = &self.submit.prompt;
        let (from, to) = (from as usize, to as usize);
        // One token of a row that decodes: the usual case by far.
        if from >= prompt.len() && to == from + 1 {
            return Ids::from_elem(self.generated[from - prompt.len()], 1);
        }
        let mut ids = Ids::with_capacity(to - from);
        ids.extend_from_slice(&prompt[from.min(prompt.len())..to.min(prompt.len())]);
        let past = |at: usize| at.saturating_sub(prompt.len());
        ids.extend_from_slice(&self.generated[past(from)..past(to)]);
        ids
    }

    /// Input at position `start`. A token that is still on the device was drawn by the step launched last: with at most two
    /// steps in flight, an older step's token has arrived before another step can be launched.
    pub(super) fn input(&self, start: u32, count: u32) -> Input {
        if start >= self.known() { Input::FromPrevious } else { Input::Tokens(self.ids(start, start + count).into_vec()) }
    }

    /// The draw after position `end - 1`, if that is the last one there is.
    pub(super) fn draw(&self, end: u32) -> Option<Draw> {
        if end < self.known() + self.flying {
            return None;
        }
        let index = self.drawn();
        let submit = &self.submit;
        let early = !submit.ignore_eos && index < submit.min_tokens;
        let mut draw = Draw::new(submit.sampling.clone(), index);
        draw.edits = self.tally.edits(&submit.wishes);
        draw.logprobs = submit.wishes.logprobs;
        draw.allowed = self.mask.as_ref().map(|(_, mask)| mask.clone());
        // A mask that holds stop tokens alone says that there is nothing else to say.
        if early && draw.allowed.as_ref().is_none_or(|mask| mask.has_beside(&submit.stop_ids)) {
            draw.banned = submit.stop_ids.to_vec();
        }
        Some(draw)
    }

    /// Whether `token`, drawn at `index`, ends the row.
    fn stops(&self, token: u32, index: u32) -> bool {
        let submit = &self.submit;
        // A mask lets a stop token through before its time only where there is nothing else to say.
        let due = index >= submit.min_tokens || self.mask.is_some();
        !submit.ignore_eos && due && submit.stop_ids.contains(&token)
    }

    /// Tokens in the full blocks that two prompts begin with alike.
    pub(super) fn common(&self, other: &Row, block_tokens: u32) -> u32 {
        let same = self.starts.iter().zip(&other.starts).take_while(|(a, b)| a == b).count();
        same as u32 * block_tokens
    }
}

/// For each full block of a prompt a hash of the prompt up to its end: rows that wait are held against those that run in every turn,
/// by a number a block. Two that are taken for alike by chance cost one of them a wait, or a share of a step that it does not need.
pub(super) fn starts(prompt: &[u32], block_tokens: u32) -> Box<[u64]> {
    let blocks = prompt.chunks_exact(block_tokens as usize);
    blocks
        .scan(0, |hash, ids| {
            *hash = fold(*hash, ids);
            Some(*hash)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::{KeyId, Wishes};
    use kv::Sampling;
    use std::collections::BTreeSet;

    /// A row of the prompt 1, 2, 3, and at most five tokens more.
    fn row(generated: &[u32], flying: u32) -> Row {
        let sampling = Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0 };
        let submit = Submit {
            seq: SeqId(1),
            key: KeyId(1),
            weight: 1,
            priority: 0,
            prompt: [1, 2, 3].into(),
            max_tokens: 5,
            min_tokens: 0,
            stop_ids: [].into(),
            ignore_eos: false,
            sampling,
            wishes: Wishes::default(),
            mask: None,
        };
        let counts = Counts::default();
        Row {
            submit,
            starts: Box::default(),
            arrived_us: 0,
            arrival: 1,
            age: Some(1),
            generated: generated.to_vec(),
            flying,
            counts,
            paused: false,
            tally: Tally::default(),
            mask: None,
            live: None,
        }
    }

    #[test]
    fn ids_are_of_the_prompt_and_then_of_the_answer() {
        let (row, all) = (row(&[7, 8, 9], 1), [1, 2, 3, 7, 8, 9]);
        for (from, to) in (0..=6).flat_map(|from| (from..=6).map(move |to| (from, to))) {
            assert_eq!(row.ids(from, to)[..], all[from as usize..to as usize], "{from} to {to}");
        }
    }

    #[test]
    fn what_a_row_does_next_and_where_it_draws() {
        // Generated, in flight, launched; what is next; the first position after which a token is drawn.
        let rows: &[(&[u32], u32, u32, Next, u32)] = &[
            (&[], 0, 0, Next::Prefill(3), 3),
            (&[], 0, 2, Next::Prefill(1), 3),
            (&[7], 0, 3, Next::Decode, 4),
            (&[7, 8], 0, 3, Next::Prefill(2), 5),
            (&[], 1, 3, Next::Decode, 4),
            (&[7], 1, 4, Next::Decode, 5),
            (&[7, 8, 9], 2, 7, Next::Wait, 8),
        ];
        for &(generated, flying, launched, next, draws) in rows {
            let row = row(generated, flying);
            let live = Live { life: 1, table: Vec::new(), given_up: 0, launched, sealed: 0, last_step: None };
            assert_eq!((row.next(&live), row.most()), (next, 8), "{generated:?} and {flying}");
            let index = generated.len() as u32 + flying;
            assert_eq!([draws - 1, draws].map(|end| row.draw(end).map(|draw| draw.index)), [None, Some(index)], "{generated:?} and {flying}");
        }
    }

    #[test]
    fn prompts_that_begin_differently_are_told_apart() {
        let hash = |ids: [u32; 4]| starts(&ids, 2).to_vec();
        let ids = |n: u32| [n / 64, n % 64];
        let mut first = BTreeSet::new();
        let mut second = BTreeSet::new();
        for n in 0..4096 {
            let [a, b] = ids(n);
            first.insert(hash([a, b, 7, 7])[0]);
            // What is alike in the second block is not alike after another first one.
            second.insert(hash([a, b, 7, 7])[1]);
            second.insert(hash([99, 99, a, b])[1]);
        }
        assert_eq!((first.len(), second.len()), (4096, 8192));
        assert_eq!(hash([1, 2, 3, 4])[0], hash([1, 2, 5, 6])[0]);
        assert_eq!(starts(&[1, 2, 3], 2).len(), 1, "of full blocks only");
    }
}
