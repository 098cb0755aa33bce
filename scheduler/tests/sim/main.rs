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
