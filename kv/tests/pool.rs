//! What the pool promises, one promise a test.

#![allow(clippy::unwrap_used)]

use kv::{BlockId, Grant, Ids, Ledger, Pool, PoolConfig, SeqId, StepId, Want, Wants, Window};

const SIZE: u32 = 4;

struct Desk(Pool);

/// Cached tokens, table, and the copy to make first.
type Admission = (u32, Vec<BlockId>, Option<(BlockId, BlockId)>);

impl Desk {
    fn new(blocks: u32) -> Desk {
        Desk(Pool::new(PoolConfig { blocks, block_tokens: SIZE, block_bytes: 1 << 20, prefix_cache: true }))
    }

    fn settle(&mut self, list: Vec<Want>) -> Vec<Grant> {
        let settled = self.0.settle(Wants::new(1, list));
        assert_eq!(self.0.check(), Ok(()));
        settled.grants
    }

    /// Admits the whole prompt: cached tokens, table and copy, if it fits.
    fn admit(&mut self, seq: u64, prompt: &[u32], spare: u32) -> Option<Admission> {
        let want = Want::Admit { seq: SeqId(seq), prompt: prompt.into(), chunk: u32::MAX, spare, window: None };
        match self.settle(vec![want]).pop()? {
            Grant::Admitted { cached, table, copy } => Some((cached, table, copy)),
            other => panic!("{other:?}"),
        }
    }

    fn seal(&mut self, seq: u64, tokens: &[u32]) {
        self.settle(vec![Want::Seal { seq: SeqId(seq), tokens: tokens.into() }]);
    }

    fn release(&mut self, seq: u64, after: Option<u64>) {
        self.settle(vec![Want::Release { seq: SeqId(seq), after: after.map(StepId) }]);
    }

    /// A prompt computed by a row that is gone again.
    fn cache(&mut self, seq: u64, prompt: &[u32]) -> Vec<BlockId> {
        let (cached, table, _) = self.admit(seq, prompt, 0).unwrap();
        self.seal(seq, &prompt[cached as usize..]);
        self.release(seq, None);
        table
    }

    /// `[rows, prefix, held, free]`
    fn shape(&self) -> [u32; 4] {
        let Ledger { rows, prefix, held, free, .. } = self.0.ledger();
        [rows, prefix, held, free]
    }
}

/// `count` tokens that no other text shares.
fn text(number: u32, count: u32) -> Vec<u32> {
    (0..count).map(|i| number * 1000 + i).collect()
}

#[test]
fn a_list_is_settled_in_order_up_to_the_first_shortfall() {
    let mut desk = Desk::new(4);
    let admit = |seq, tokens| Want::Admit { seq: SeqId(seq), prompt: text(seq as u32, tokens).into(), chunk: 99, spare: 0, window: None };
    let grow = |seq, tokens| Want::Grow { seq: SeqId(seq), tokens };
    // Two blocks, then five are wanted where two are left; the release behind it is not looked at.
    let list = vec![admit(1, 8), grow(1, 28), Want::Release { seq: SeqId(1), after: None }];
    assert_eq!(desk.settle(list).len(), 1);
    assert_eq!(desk.shape(), [2, 0, 0, 2]);
    // The same after a release does fit.
    let list = vec![Want::Release { seq: SeqId(1), after: None }, admit(2, 8), grow(2, 16)];
    assert_eq!(desk.settle(list).len(), 2, "growth and admission are granted");
    assert_eq!(desk.shape(), [4, 0, 0, 0]);
}

#[test]
fn growth_within_a_block_costs_nothing() {
    let mut desk = Desk::new(2);
    desk.admit(1, &text(1, 1), 0).unwrap();
    for (tokens, new) in [(2, 0), (4, 0), (5, 1), (8, 0), (5, 0)] {
        let grants = desk.settle(vec![Want::Grow { seq: SeqId(1), tokens }]);
        let [Grant::Grown { new: blocks }] = &grants[..] else { panic!("{grants:?}") };
        assert_eq!(blocks.len(), new, "{tokens} tokens");
    }
}

#[test]
fn an_admission_reserves_a_chunk_and_looks_at_the_whole() {
    let mut desk = Desk::new(10);
    let want = |chunk, spare| Want::Admit { seq: SeqId(1), prompt: text(1, 32).into(), chunk, spare, window: None };
    assert_eq!(desk.settle(vec![want(8, 3)]).len(), 0, "8 blocks in all, and 3 to spare, of 10");
    let grants = desk.settle(vec![want(8, 2)]);
    let [Grant::Admitted { cached: 0, table, .. }] = &grants[..] else { panic!("{grants:?}") };
    assert_eq!(table.len(), 2);
}

#[test]
fn a_prefix_is_shared_in_full_blocks() {
    let mut desk = Desk::new(16);
    let first = desk.cache(1, &text(1, 11));
    assert_eq!(desk.shape(), [0, 2, 0, 14], "the last block is not full");
    let rows: &[(Vec<u32>, u32)] = &[
        (text(1, 11), 8),
        ([text(1, 7), text(2, 5)].concat(), 4),
        ([text(1, 3), text(2, 5)].concat(), 0),
        (text(1, 9), 8),
        (text(2, 9), 0),
        // The second block's tokens after another beginning are another prefix.
        ([text(2, 4), text(1, 8)[4..].to_vec(), text(3, 1)].concat(), 0),
    ];
    for (n, (prompt, expected)) in rows.iter().enumerate() {
        let (cached, table, copy) = desk.admit(10 + n as u64, prompt, 0).unwrap();
        assert_eq!((cached, copy), (*expected, None), "row {n}");
        let shared = (cached / SIZE) as usize;
        assert_eq!(table[..shared], first[..shared], "row {n}");
        desk.release(10 + n as u64, None);
    }
}

#[test]
fn a_prompt_that_is_cached_whole_computes_one_token_in_a_copy() {
    let mut desk = Desk::new(6);
    let first = desk.cache(1, &text(1, 8));
    let (cached, table, copy) = desk.admit(2, &text(1, 8), 0).unwrap();
    assert_eq!((cached, table[0], copy), (7, first[0], Some((first[1], table[1]))));
    assert_eq!(desk.shape(), [3, 0, 0, 3], "the source stays until the copy is made");
    desk.seal(2, &text(1, 8)[7..]);
    assert_eq!(desk.shape(), [2, 0, 0, 4], "the copy took the source's place");
    // What the row goes on to compute continues the chain.
    desk.settle(vec![Want::Grow { seq: SeqId(2), tokens: 12 }]);
    desk.seal(2, &text(5, 4));
    desk.release(2, None);
    let longer = [text(1, 8), text(5, 4), text(6, 1)].concat();
    assert_eq!(desk.admit(3, &longer, 0).unwrap().0, 12);
}

#[test]
fn a_copy_that_does_not_fit_is_computed_again() {
    let mut desk = Desk::new(2);
    let first = desk.cache(1, &text(1, 8));
    let (cached, table, copy) = desk.admit(2, &text(1, 8), 0).unwrap();
    assert_eq!((cached, copy), (4, None));
    assert_eq!((table[0], table[1]), (first[0], first[1]), "the second block was evicted and given out again");
}

#[test]
fn eviction_takes_the_least_recently_used_chain_from_its_tail() {
    let mut desk = Desk::new(6);
    desk.cache(1, &text(1, 12));
    desk.cache(2, &text(2, 12));
    desk.cache(1, &[text(1, 12), text(9, 1)].concat()); // Uses the first chain again; evicts one block for its own last token.
    let cached = |desk: &mut Desk, n: u32| {
        // A chunk of one token: looking evicts nothing.
        let prompt = [text(n, 12), text(8, 1)].concat().into();
        let grants = desk.settle(vec![Want::Admit { seq: SeqId(50), prompt, chunk: 1, spare: 0, window: None }]);
        let [Grant::Admitted { cached, .. }] = grants[..] else { panic!("{grants:?}") };
        desk.settle(vec![Want::Release { seq: SeqId(50), after: None }]);
        cached
    };
    assert_eq!(desk.shape(), [0, 5, 0, 1]);
    assert_eq!((cached(&mut desk, 2), cached(&mut desk, 1)), (8, 12));
}

#[test]
fn released_is_not_free_until_the_step_is_done() {
    let mut desk = Desk::new(3);
    desk.admit(1, &text(1, 9), 0).unwrap();
    desk.seal(1, &text(1, 8));
    desk.release(1, Some(7));
    assert_eq!(desk.shape(), [0, 0, 3, 0]);
    assert_eq!(desk.admit(2, &text(2, 1), 0), None);
    desk.settle(vec![Want::Done { step: StepId(6) }]);
    assert_eq!(desk.shape(), [0, 0, 3, 0]);
    // Reading what is held is fine, and brings it back to life.
    let (cached, ..) = desk.admit(3, &text(1, 8)[..5], 0).unwrap_or_default();
    assert_eq!(cached, 0, "but its second block would have to be written");
    desk.settle(vec![Want::Done { step: StepId(7) }]);
    assert_eq!(desk.shape(), [0, 2, 0, 1]);
}

#[test]
fn a_block_is_held_for_the_last_of_its_holders() {
    let mut desk = Desk::new(4);
    desk.cache(1, &text(1, 4));
    for seq in [2, 3] {
        assert_eq!(desk.admit(seq, &text(1, 5), 0).unwrap().0, 4);
    }
    desk.release(2, Some(9));
    desk.release(3, None);
    assert_eq!(desk.shape(), [0, 0, 2, 2], "the shared block, and row 2's own");
    desk.settle(vec![Want::Done { step: StepId(9) }]);
    assert_eq!(desk.shape(), [0, 1, 0, 3]);
}

#[test]
fn what_is_forgotten_is_not_shared() {
    let mut desk = Desk::new(8);
    desk.admit(1, &text(1, 9), 0).unwrap();
    desk.seal(1, &text(1, 9));
    desk.settle(vec![Want::Forget { seq: SeqId(1), tokens: Ids::new() }, Want::Release { seq: SeqId(1), after: None }]);
    assert_eq!(desk.shape(), [0, 0, 0, 8]);
    assert_eq!(desk.admit(2, &text(1, 9), 0).unwrap().0, 0);
}

#[test]
fn what_a_released_row_left_is_forgotten_by_its_tokens() {
    let mut desk = Desk::new(8);
    desk.admit(1, &text(1, 9), 0).unwrap();
    desk.seal(1, &text(1, 9));
    desk.admit(2, &text(2, 9), 0).unwrap();
    desk.seal(2, &text(2, 9));
    for seq in [1, 2] {
        desk.settle(vec![Want::Release { seq: SeqId(seq), after: None }]);
    }
    assert_eq!(desk.shape(), [0, 4, 0, 4]);
    desk.settle(vec![Want::Forget { seq: SeqId(1), tokens: text(1, 9).into() }]);
    assert_eq!(desk.shape(), [0, 2, 0, 6]);
    assert_eq!(desk.admit(3, &text(1, 9), 0).unwrap().0, 0);
    assert_eq!(desk.admit(4, &text(2, 9), 0).unwrap().0, 8, "another row's are not touched");
}

#[test]
fn what_lies_behind_goes_back_and_can_be_shared() {
    let mut desk = Desk::new(8);
    let (_, table, _) = desk.admit(1, &text(1, 18), 0).unwrap();
    desk.seal(1, &text(1, 14));
    let behind = |desk: &mut Desk, tokens, after: Option<u64>| {
        desk.settle(vec![Want::Behind { seq: SeqId(1), tokens, after: after.map(StepId) }]);
        desk.shape()
    };
    assert_eq!(behind(&mut desk, 3, None), [5, 0, 0, 3], "no whole block");
    assert_eq!(behind(&mut desk, 7, None), [4, 1, 0, 3]);
    assert_eq!(behind(&mut desk, 12, Some(3)), [2, 1, 2, 3], "a step in flight reads two of them");
    assert_eq!(behind(&mut desk, 4, None), [2, 1, 2, 3], "given up already");
    desk.settle(vec![Want::Done { step: StepId(3) }]);
    assert_eq!(desk.shape(), [2, 3, 0, 3]);
    // Another row finds them; what the first one computes goes on where it was.
    assert_eq!(desk.admit(2, &text(1, 13), 0).unwrap().1[..3], table[..3]);
    desk.seal(1, &text(1, 18)[14..]);
    desk.release(1, None);
    desk.release(2, None);
    assert_eq!(desk.shape(), [0, 4, 0, 4]);
    assert_eq!(desk.admit(3, &text(1, 18), 0).unwrap().0, 16);
}

#[test]
fn a_row_takes_no_cached_block_that_its_window_does_not_read() {
    let window = |tokens| Some(Window { tokens, ahead: 8 });
    let zeros = |table: &[BlockId]| table.iter().filter(|block| block.0 == 0).count();
    // The first token that is computed is at 16, or, in a copy, at 19.
    for (prompt, tokens, behind) in [(18, 1, 4), (18, 4, 3), (18, 5, 3), (18, 6, 2), (18, 17, 0), (20, 1, 4), (20, 5, 3), (20, 20, 0)] {
        let mut desk = Desk::new(8);
        let first = desk.cache(1, &text(1, prompt));
        let want = Want::Admit { seq: SeqId(2), prompt: text(1, prompt).into(), chunk: 99, spare: 0, window: window(tokens) };
        let grants = desk.settle(vec![want]);
        let [Grant::Admitted { cached, table, .. }] = &grants[..] else { panic!("{grants:?}") };
        let shared = (*cached / SIZE) as usize;
        assert_eq!(
            (*cached, zeros(table), &table[behind..shared]),
            (prompt - prompt % 4 - u32::from(prompt == 20), behind, &first[behind..shared]),
            "window {tokens}"
        );
    }
}

#[test]
fn what_a_window_passes_over_counts_as_used() {
    let mut desk = Desk::new(6);
    desk.cache(1, &text(1, 12));
    desk.cache(2, &text(2, 8));
    // Reads none of the first chain's blocks, but was found through them: now the second chain is the older one.
    let window = Some(Window { tokens: 1, ahead: 8 });
    desk.settle(vec![Want::Admit { seq: SeqId(3), prompt: text(1, 13).into(), chunk: 1, spare: 0, window }]);
    desk.release(3, None);
    desk.admit(4, &text(4, 12), 0).unwrap();
    desk.release(4, None);
    assert_eq!(desk.admit(5, &text(1, 13), 0).unwrap().0, 12);
}

#[test]
fn a_prompt_longer_than_the_pool_fits_by_its_window() {
    // 6 + 4 tokens in 3 blocks, and 2 more.
    let window = Some(Window { tokens: 6, ahead: 4 });
    for (blocks, window, fits) in [(5, window, true), (4, window, false), (5, None, false), (25, None, true)] {
        let mut desk = Desk::new(blocks);
        let want = Want::Admit { seq: SeqId(1), prompt: text(1, 100).into(), chunk: 4, spare: 0, window };
        assert_eq!(desk.settle(vec![want]).len(), usize::from(fits), "{blocks} blocks");
    }
}

#[test]
fn what_lies_behind_is_forgotten_with_the_row() {
    let mut desk = Desk::new(8);
    desk.admit(1, &text(1, 13), 0).unwrap();
    desk.seal(1, &text(1, 13));
    desk.settle(vec![Want::Behind { seq: SeqId(1), tokens: 12, after: None }]);
    assert_eq!(desk.shape(), [1, 3, 0, 4]);
    desk.settle(vec![Want::Forget { seq: SeqId(1), tokens: Ids::new() }, Want::Release { seq: SeqId(1), after: None }]);
    assert_eq!((desk.shape(), desk.admit(2, &text(1, 13), 0).unwrap().0), ([0, 0, 0, 8], 0));
}

#[test]
#[should_panic(expected = "gives up position 5 of 4 that are computed")]
fn what_is_not_computed_yet_cannot_lie_behind() {
    let mut desk = Desk::new(4);
    desk.admit(1, &text(1, 8), 0).unwrap();
    desk.seal(1, &text(1, 4));
    desk.settle(vec![Want::Behind { seq: SeqId(1), tokens: 5, after: None }]);
}

#[test]
fn void_frees_everything() {
    let mut desk = Desk::new(8);
    desk.cache(1, &text(1, 8));
    desk.admit(2, &text(2, 8), 0).unwrap();
    desk.release(2, Some(3));
    desk.settle(vec![Want::Void]);
    assert_eq!(desk.shape(), [0, 0, 0, 8]);
    assert_eq!(desk.admit(3, &text(1, 8), 0).unwrap().0, 0);
}

#[test]
fn unknown_rows_are_released_and_sealed_without_harm() {
    let mut desk = Desk::new(2);
    desk.release(9, Some(1));
    desk.seal(9, &[1, 2, 3]);
    let behind = Want::Behind { seq: SeqId(9), tokens: 7, after: None };
    desk.settle(vec![behind, Want::Forget { seq: SeqId(9), tokens: Ids::new() }, Want::Done { step: StepId(100) }]);
    assert_eq!(desk.shape(), [0, 0, 0, 2]);
}

#[test]
#[should_panic(expected = "was not admitted")]
fn growth_of_an_unknown_row_is_a_bug() {
    Desk::new(2).settle(vec![Want::Grow { seq: SeqId(9), tokens: 1 }]);
}

#[test]
fn what_is_computed_after_a_shared_prefix_continues_it() {
    let mut desk = Desk::new(16);
    desk.cache(1, &text(1, 8));
    let longer = [text(1, 8), text(2, 4)].concat();
    desk.cache(2, &longer);
    assert_eq!(desk.admit(3, &[longer, text(9, 1)].concat(), 0).unwrap().0, 12);
    assert_eq!(desk.admit(4, &text(2, 5), 0).unwrap().0, 0, "the same tokens from the beginning are another prefix");
}

#[test]
fn flushed_prefixes_are_free_and_those_of_rows_stay() {
    let mut desk = Desk::new(8);
    desk.cache(1, &text(1, 9));
    let (_, table, _) = desk.admit(2, &text(2, 9), 0).unwrap();
    desk.seal(2, &text(2, 9));
    assert_eq!(desk.shape(), [3, 2, 0, 3]);
    desk.settle(vec![Want::Flush]);
    assert_eq!(desk.shape(), [3, 0, 0, 5]);
    assert_eq!(desk.admit(3, &text(1, 9), 0).unwrap().0, 0, "nothing is left of the first prompt");
    let (cached, shared, _) = desk.admit(4, &text(2, 9), 0).unwrap();
    assert_eq!((cached, &shared[..2]), (8, &table[..2]), "a running row's prefix is shared as before");
}
