//! A deterministic simulator: the real scheduler and the real pool, a device made of hashes, and random events. After every event
//! all invariants are checked. On failure proptest prints the smallest list of events that still fails.

mod device;
mod rows;
mod strategy;
mod world;

use proptest::prelude::*;
use proptest::test_runner::Config;
use world::World;

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
