//! Where every layer has a window, what lies behind goes back, and a row of any length runs in a few blocks.

use crate::bench::{BLOCK_TOKENS, Bench, ask, limits, own};
use kv::{BlockId, SeqId, Step, StepId, Want, Window};
use scheduler::{Limits, Refusal};

/// A pool of exactly the blocks that a row of such a window may hold at one time.
fn tight(window: u32, prefill_chunk: u32, depth: u32) -> Limits {
    let blocks = Window { tokens: window, ahead: depth * prefill_chunk }.blocks_max(BLOCK_TOKENS);
    Limits { window: Some(window), prefill_chunk, depth, pool_tokens: u64::from(blocks * BLOCK_TOKENS), context: 4096, ..limits() }
}

/// Every row has a block for each position that it reads or writes, and block 0 for every block before those.
fn check_tables(steps: &[Step], window: u32) {
    for row in steps.iter().flat_map(|step| &step.rows) {
        let read_from = (row.start + 1).saturating_sub(window) / BLOCK_TOKENS;
        assert!(row.table[read_from as usize..].iter().all(|block| *block != BlockId(0)), "window {window}: {row:?}");
    }
}

#[test]
fn a_prompt_of_any_length_ends_alone_in_the_blocks_of_its_window() {
    for depth in [1, 2] {
        for (window, chunk) in [(1, 1), (1, 7), (2, 3), (5, 1), (8, 4), (9, 16), (33, 5), (64, 64)] {
            for length in [1, 2, 15, 64, 65, 500, 1501] {
                let mut bench = Bench::new(tight(window, chunk, depth));
                bench.submit(ask(1, own(1, length), 90)).unwrap();
                bench.run();
                assert_eq!(bench.tokens(1), (100..190).collect::<Vec<_>>(), "window {window}, chunks of {chunk}, depth {depth}, {length} tokens");
                assert_eq!(bench.computed(1), length + 89, "each position is computed once");
                check_tables(&bench.steps, window);
            }
        }
    }
}

#[test]
fn a_row_holds_no_more_than_its_window_and_what_is_ahead() {
    for depth in [1, 2] {
        let mut bench = Bench::new(Limits { window: Some(10), prefill_chunk: 8, depth, ..limits() });
        let most = Window { tokens: 10, ahead: 8 * depth }.blocks_max(BLOCK_TOKENS);
        bench.submit(ask(1, own(1, 200), 100)).unwrap();
        let mut seen = 0;
        while bench.step() {
            seen = seen.max(bench.pool.ledger().rows);
        }
        assert!(seen > 10_u32.div_ceil(BLOCK_TOKENS) && seen <= most, "{seen} of {most} at depth {depth}");
        // Everything but the last block, which is not full, can be found again.
        assert_eq!(bench.pool.ledger().prefix, 299 / BLOCK_TOKENS);
    }
}

#[test]
fn without_room_for_the_window_long_rows_are_refused_and_short_ones_run() {
    let tight = tight(8, 4, 1);
    // 12 tokens in 3 blocks, and 2 more.
    assert_eq!((tight.pool_tokens, tight.row_tokens_max()), (20, u64::from(u32::MAX)));
    let less = Limits { pool_tokens: 16, ..tight };
    assert_eq!((less.row_tokens_max(), limits().row_tokens_max()), (16, limits().pool_tokens));
    let mut bench = Bench::new(less);
    assert_eq!(bench.submit(ask(1, own(1, 16), 1)), Err(Refusal::NeverFits { need_tokens: 17, pool_tokens: 16 }));
    assert_eq!(bench.submit(ask(2, own(2, 900), 9)), Err(Refusal::NeverFits { need_tokens: 20, pool_tokens: 16 }));
    bench.submit(ask(3, own(3, 12), 4)).unwrap();
    bench.run();
    assert_eq!(bench.tokens(3).len(), 4);
}

#[test]
fn blocks_that_a_step_in_flight_reads_are_held_for_it() {
    let mut bench = Bench::new(Limits { window: Some(4), prefill_chunk: 8, depth: 2, ..limits() });
    bench.submit(ask(1, own(1, 40), 2)).unwrap();
    bench.launch();
    assert!(!bench.wants.iter().any(|want| matches!(want, Want::Behind { .. })), "nothing is computed yet");
    bench.done();
    bench.launch();
    // Step 1 computed positions 0 to 7. Step 2, which is in flight, reads from 5 on; step 3 starts at 16 and reads from 13 on.
    let behind: Vec<&Want> = bench.wants.iter().filter(|want| matches!(want, Want::Behind { .. })).collect();
    assert_eq!(behind, [&Want::Behind { seq: SeqId(1), tokens: 8, after: Some(StepId(2)) }]);
    assert_eq!((bench.pool.ledger().held, bench.steps[2].rows[0].table[..2].to_vec()), (2, vec![BlockId(0); 2]));
    bench.run();
    check_tables(&bench.steps, 4);
}

#[test]
fn nothing_goes_back_while_some_layer_sees_all() {
    let mut bench = Bench::new(limits());
    bench.submit(ask(1, own(1, 200), 50)).unwrap();
    bench.run();
    assert!(!bench.wants.iter().any(|want| matches!(want, Want::Behind { .. })));
    assert!(bench.steps.iter().flat_map(|step| &step.rows).all(|row| !row.table.contains(&BlockId(0))));
}

#[test]
fn rows_that_make_room_begin_anew_and_end_with_the_same_tokens() {
    for depth in [1, 2] {
        let mut preempted = 0;
        for blocks in 13..24 {
            let limits = Limits { window: Some(30), prefill_chunk: 6, depth, batch: 4, pool_tokens: blocks * u64::from(BLOCK_TOKENS), ..limits() };
            let mut bench = Bench::new(limits);
            for seq in 1..=6 {
                bench.submit(ask(seq, own(seq, 3 * seq as u32), 60)).unwrap();
            }
            bench.run();
            for seq in 1..=6 {
                assert_eq!(bench.tokens(seq), (0..60).map(|index| seq as u32 * 100 + index).collect::<Vec<_>>(), "{blocks} blocks, depth {depth}");
                preempted += bench.finished(seq).unwrap().2.preemptions;
            }
            check_tables(&bench.steps, 30);
            assert_eq!((bench.pool.ledger().rows, bench.pool.ledger().held), (0, 0));
        }
        assert!(preempted > 0, "depth {depth}");
    }
}

#[test]
fn a_longer_turn_finds_what_lay_behind() {
    let mut bench = Bench::new(Limits { window: Some(8), ..limits() });
    bench.submit(ask(1, own(1, 100), 20)).unwrap();
    bench.run();
    let turn = [own(1, 100), bench.tokens(1), own(9, 6)].concat();
    bench.submit(ask(2, turn, 3)).unwrap();
    bench.run();
    assert_eq!(bench.finished(2).unwrap().2.cached, 119 / BLOCK_TOKENS * BLOCK_TOKENS);
    check_tables(&bench.steps, 8);
}

#[test]
fn what_lies_behind_is_not_spared() {
    let mut bench = Bench::new(Limits { window: Some(8), ..limits() });
    bench.submit(ask(1, own(1, 40), 60)).unwrap();
    while bench.tokens(1).len() < 5 {
        bench.step();
    }
    // Of row 2's beginning row 1 has computed 40 tokens, of which it reads seven.
    bench.submit(ask(2, [own(1, 40), own(2, 5)].concat(), 20)).unwrap();
    bench.submit(ask(3, own(3, 5), 1)).unwrap();
    bench.launch();
    // Rows 1 and 2 have the blocks for 45 tokens from their windows on, and need one more each.
    assert_eq!(bench.spares()[1..], [(2, 1), (3, 2)]);
}
