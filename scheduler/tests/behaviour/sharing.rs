//! Prefixes are computed once.

use crate::bench::{BLOCK_TOKENS, Bench, ask, limits, own};
use scheduler::{Event, Limits};

fn cached(bench: &Bench, seq: u64) -> Option<u32> {
    bench.events.iter().find_map(|event| match event {
        Event::Admitted { seq: of, cached, .. } if of.0 == seq => Some(*cached),
        _ => None,
    })
}

#[test]
fn identical_prompts_that_arrive_together_pay_one_prefill() {
    for depth in [1, 2] {
        let mut bench = Bench::new(Limits { depth, ..limits() });
        for seq in 1..=5 {
            bench.submit(ask(seq, own(0, 64), 1)).unwrap();
        }
        bench.run();
        assert_eq!(bench.computed(1), 64);
        for seq in 2..=5 {
            assert_eq!((bench.computed(seq), cached(&bench, seq)), (1, Some(63)), "row {seq}");
        }
    }
}

#[test]
fn a_prompt_that_a_running_row_computed_whole_does_not_wait_for_its_end() {
    let mut bench = Bench::new(limits());
    bench.submit(ask(1, own(0, 8), 50)).unwrap();
    bench.step();
    bench.submit(ask(2, own(0, 8), 1)).unwrap();
    bench.step();
    bench.step();
    assert_eq!((cached(&bench, 2), bench.finished(2).is_some(), bench.finished(1)), (Some(7), true, None));
}

#[test]
fn without_a_prefix_cache_nobody_waits() {
    let mut bench = Bench::new(Limits { prefix_cache: false, ..limits() });
    for seq in 1..=4 {
        bench.submit(ask(seq, own(0, 16), 1)).unwrap();
    }
    bench.run();
    assert_eq!(bench.steps.len(), 1);
    assert!((1..=4).all(|seq| bench.computed(seq) == 16));
}

#[test]
fn a_prompt_that_shares_little_does_not_wait() {
    let mut bench = Bench::new(limits());
    let like = |seq: u64| [own(0, BLOCK_TOKENS), own(seq, 26)].concat();
    bench.submit(ask(1, like(1), 1)).unwrap();
    bench.submit(ask(2, like(2), 1)).unwrap();
    bench.launch();
    assert_eq!(bench.admitted(), [1, 2]);
}

#[test]
fn the_second_turn_of_a_chat_reuses_the_first_with_its_answer() {
    for depth in [1, 2] {
        let mut bench = Bench::new(Limits { depth, ..limits() });
        bench.submit(ask(1, own(1, 10), 11)).unwrap();
        bench.run();
        let second = [own(1, 10), bench.tokens(1), own(2, 5)].concat();
        bench.submit(ask(2, second, 1)).unwrap();
        bench.run();
        // 10 + 11 tokens, the last of which was never an input: five full blocks.
        assert_eq!(cached(&bench, 2), Some(20), "depth {depth}");
    }
}

#[test]
fn a_shared_beginning_does_not_limit_how_many_run() {
    // 32 blocks hold one copy of 80 tokens and six rows' own parts, but not two copies of it.
    let mut bench = Bench::new(Limits { pool_tokens: 128, ..limits() });
    bench.submit(ask(1, own(0, 80), 1)).unwrap();
    bench.run();
    for seq in 2..=6 {
        let prompt = [own(0, 80), own(seq, 3)].concat();
        bench.submit(ask(seq, prompt, 3)).unwrap();
    }
    bench.launch();
    bench.done();
    bench.launch();
    assert!(bench.scheduler.snapshot().running >= 4, "{:?}", bench.scheduler.snapshot());
    bench.run();
}

/// A prompt of one whole block: its last token every row computes for itself, and waits for nobody.
#[test]
fn identical_prompts_of_one_block_run_together() {
    for length in [BLOCK_TOKENS - 1, BLOCK_TOKENS, BLOCK_TOKENS + 1] {
        let mut bench = Bench::new(limits());
        for seq in 1..=4 {
            bench.submit(ask(seq, own(1, length), 20)).unwrap();
        }
        let mut together = 0;
        while bench.step() {
            together = together.max(bench.scheduler.snapshot().running);
        }
        assert_eq!(together, 4, "prompts of {length}");
    }
}
