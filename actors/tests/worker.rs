//! The engine in a process of its own, which dies in every way that there is: this program is the server, and started with `worker` it is
//! the worker, a synthetic model that misbehaves as its job says.
//!
//! Nothing here sleeps: tests wait for events, or for the published stats.

#![allow(clippy::unwrap_used)]

#[path = "worker/deaths.rs"]
mod deaths;
#[allow(dead_code)]
#[path = "service/house.rs"]
mod house;
#[path = "worker/kills.rs"]
mod kills;
#[path = "worker/stuck.rs"]
mod stuck;
#[path = "worker/synthetic.rs"]
mod synthetic;

use libtest_mimic::{Arguments, Trial};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("worker") => return synthetic::run(),
        Some("debugger") => return stuck::debug(std::env::args().nth(2).unwrap().parse().unwrap()),
        _ => {}
    }
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let trials = vec![
        trial("five_hundred_kills_lose_nothing", kills::five_hundred_kills_lose_nothing),
        trial("a_worker_that_stands_still_is_replaced", kills::a_worker_that_stands_still_is_replaced),
        trial("a_worker_that_makes_no_sense_is_replaced", deaths::a_worker_that_makes_no_sense_is_replaced),
        trial("a_worker_that_fails_says_why", deaths::a_worker_that_fails_says_why),
        trial("a_worker_that_dies_on_load_is_waited_for", deaths::a_worker_that_dies_on_load_is_waited_for),
        trial("too_many_deaths_refuse_until_the_model_is_back", deaths::too_many_deaths_refuse_until_the_model_is_back),
        trial("a_load_that_hangs_is_ended", deaths::a_load_that_hangs_is_ended),
        trial("a_model_that_cannot_be_loaded_is_said_as_it_is", deaths::a_model_that_cannot_be_loaded_is_said_as_it_is),
        trial("a_death_is_seen_though_somebody_holds_the_connection", deaths::a_death_is_seen_though_somebody_holds_the_connection),
        trial("a_worker_that_does_not_end_is_left_to_itself", stuck::a_worker_that_does_not_end_is_left_to_itself),
        trial("the_last_handle_takes_the_worker_with_it", deaths::the_last_handle_takes_the_worker_with_it),
    ];
    // One after the other: they watch this process's descriptors and children.
    libtest_mimic::run(&Arguments { test_threads: Some(1), ..Arguments::from_args() }, trials).exit();
}
