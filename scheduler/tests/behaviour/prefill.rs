//! Prompts share steps with decoding rows, and with each other.

use crate::bench::{Bench, ask, limits, own};
use kv::SeqId;
use scheduler::Limits;

#[test]
fn a_long_prompt_stalls_a_stream_by_one_chunk_at_most() {
    let mut bench = Bench::new(limits());
    bench.submit(ask(1, own(1, 4), 40)).unwrap();
    bench.step();
    bench.submit(ask(2, own(2, 100), 1)).unwrap();
    while bench.finished(2).is_none() {
        bench.step();
        let shape = bench.shape(bench.steps.len() - 1);
        assert_eq!(shape, [(1, 1), (2, shape[1].1)], "the decoding row is in every step, first");
        assert!(shape[1].1 <= 16, "{shape:?}");
    }
    assert_eq!(bench.steps.len(), 1 + 100usize.div_ceil(16));
}

#[test]
fn short_prompts_share_a_step() {
    let mut bench = Bench::new(limits());
    for seq in 1..=5 {
        bench.submit(ask(seq, own(seq, 10), 1)).unwrap();
    }
    bench.step();
    assert_eq!(bench.shape(0), [(1, 10), (2, 10), (3, 10), (4, 10), (5, 10)]);
}

#[test]
fn a_short_prompt_does_not_wait_behind_a_long_one() {
    let mut bench = Bench::new(limits());
    bench.submit(ask(1, own(1, 4), 200)).unwrap();
    bench.step();
    bench.submit(ask(2, own(2, 400), 1)).unwrap();
    bench.step();
    bench.submit(ask(3, own(3, 8), 1)).unwrap();
    bench.step();
    bench.step();
    assert!(bench.finished(3).is_some(), "{:?}", bench.steps);
    assert!(bench.finished(2).is_none());
}

#[test]
fn a_free_place_is_filled_though_two_long_prompts_could_use_the_whole_chunk() {
    let mut bench = Bench::new(limits());
    bench.submit(ask(1, own(1, 4), 200)).unwrap();
    bench.step();
    for seq in [2, 3, 4] {
        bench.submit(ask(seq, own(seq, 400), 1)).unwrap();
        bench.step();
        assert_eq!(bench.admitted().last(), Some(&seq));
    }
}

#[test]
fn a_long_prompt_does_not_starve_behind_short_ones() {
    let mut bench = Bench::new(Limits { batch: 4, ..limits() });
    bench.submit(ask(1, own(1, 4), 200)).unwrap();
    bench.step();
    bench.submit(ask(2, own(2, 160), 1)).unwrap();
    bench.step();
    for seq in 3.. {
        if bench.finished(2).is_some() {
            break;
        }
        assert!(seq < 30, "at least half a chunk a step: 160 tokens take at most 20 steps");
        bench.submit(ask(seq, own(seq, 12), 1)).unwrap();
        bench.step();
    }
}

#[test]
fn decoding_rows_leave_room_for_a_prompt() {
    // Six rows decode, but a step has six tokens: the prompt gets its share, and all rows take turns.
    let mut bench = Bench::new(Limits { step_tokens: 6, prefill_chunk: 4, ..limits() });
    for seq in 1..=6 {
        bench.submit(ask(seq, own(seq, 2), 60)).unwrap();
    }
    while bench.tokens(6).is_empty() {
        bench.step();
    }
    bench.submit(ask(7, own(7, 30), 1)).unwrap();
    let before = bench.steps.len();
    while bench.finished(7).is_none() {
        bench.step();
    }
    assert!(bench.steps.len() - before <= 30, "at least a token a step");
    let counts: Vec<usize> = (1..=6).map(|seq| bench.tokens(seq).len()).collect();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(most - least <= 8, "{counts:?}");
}

#[test]
fn a_batch_of_one_serialises() {
    let mut bench = Bench::new(Limits { batch: 1, ..limits() });
    for seq in 1..=3 {
        bench.submit(ask(seq, own(seq, 6), 4)).unwrap();
    }
    bench.run();
    assert!(bench.steps.iter().all(|step| step.rows.len() == 1));
    let order: Vec<SeqId> = bench.steps.iter().map(|step| step.rows[0].seq).collect();
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn an_idle_machine_computes_a_whole_step_of_prompt() {
    let mut bench = Bench::new(Limits { prefill_chunk: 64, ..limits() });
    bench.submit(ask(1, own(1, 100), 1)).unwrap();
    bench.run();
    assert_eq!((bench.shape(0), bench.shape(1)), (vec![(1, 64)], vec![(1, 36)]));
}

#[test]
fn the_oldest_prompt_gets_half_a_chunk_and_the_shortest_the_other_half() {
    // A row that does not fit keeps no share for itself, once that is known.
    for waiting in [0, 1] {
        let mut bench = Bench::new(Limits { pool_tokens: 1024, ..limits() });
        bench.submit(ask(1, own(1, 4), 200)).unwrap();
        bench.step();
        for (seq, prompt) in [(2, 300), (3, 200), (4, 100)] {
            bench.submit(ask(seq, own(seq, prompt), 1)).unwrap();
            bench.step();
        }
        assert_eq!(bench.shape(3), [(1, 1), (2, 8), (3, 4), (4, 4)], "a quarter is kept for who enters");
        for seq in 5..5 + waiting {
            bench.submit(ask(seq, own(seq, 900), 1)).unwrap();
            bench.step();
        }
        bench.step();
        assert_eq!(bench.shape(bench.steps.len() - 1), [(1, 1), (2, 8), (4, 8)], "{waiting} waiting");
        assert_eq!(bench.admitted(), [1, 2, 3, 4]);
    }
}
