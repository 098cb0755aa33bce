//! A deterministic simulator: the real scheduler and the real pool, a device made of hashes, and random events. After every event
//! all invariants are checked. On failure proptest prints the smallest list of events that still fails.

#![allow(clippy::unwrap_used)]

mod device;
mod rows;
mod strategy;
mod world;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use scheduler::Limits;
use strategy::{Ask, Op, Shape};
use world::{Seen, World};

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() }
}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn invariants_hold_after_every_event(shape in strategy::shape(), ops in strategy::ops(1..80)) {
        let mut world = World::new(shape);
        for op in &ops {
            world.apply(op)?;
        }
        world.finish()?;
    }
}

proptest! {
    #![proptest_config(config(12))]

    #[test]
    fn invariants_hold_over_a_long_run(shape in strategy::shape(), ops in strategy::ops(1500..2000)) {
        let mut world = World::new(shape);
        for op in &ops {
            world.apply(op)?;
        }
        world.finish()?;
    }
}

/// The simulator meets what it is there for.
#[test]
fn rare_things_happen() {
    let mut runner = TestRunner::deterministic();
    let mut sum = Seen::default();
    for _ in 0..400 {
        let case = (strategy::shape(), strategy::ops(1..80)).new_tree(&mut runner).unwrap().current();
        let mut world = World::new(case.0);
        for op in &case.1 {
            world.apply(op).unwrap();
        }
        world.finish().unwrap();
        for (all, one) in sum.all().into_iter().zip(world.seen.all()) {
            *all += *one;
        }
    }
    assert!(sum.all().into_iter().all(|count| *count >= 10), "{sum:?}");
}

/// Found by the simulator: the oldest row decodes, but the step has no room for it; the prompt that has room is preempted for want of
/// a block, the step stays empty, and nobody planned again.
#[test]
fn a_preemption_that_empties_a_step_wakes_the_oldest_row() {
    let limits = Limits {
        batch: 3,
        prefill_chunk: 1,
        step_tokens: 2,
        context: strategy::CONTEXT,
        depth: 1,
        queue: 6,
        pool_tokens: 44,
        block_tokens: strategy::BLOCK_TOKENS,
        prefix_cache: true,
    };
    let ask = |shared, zeros, max_tokens, priority| {
        let own = vec![0; zeros];
        let who = Ask { shared, own, max_tokens, min_tokens: 0, stop: false, ignore_eos: false, key: 0, weight: 0, priority, fault_at: None };
        Op::Submit(who)
    };
    let mut world = World::new(Shape { limits, blocks: 11 });
    for op in [ask((18, 0), 0, 13, 0), ask((3, 1), 9, 1, 0), ask((17, 0), 8, 6, -1)] {
        world.apply(&op).unwrap();
    }
    world.finish().unwrap();
}
