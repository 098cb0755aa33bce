//! Two steps in flight give what one gives.

use crate::bench::{Bench, STOP, ask, limits, own};
use kv::{Input, StepId, Want};
use scheduler::Limits;

fn deep() -> Bench {
    Bench::new(Limits { depth: 2, ..limits() })
}

#[test]
fn the_second_step_takes_its_input_from_the_first() {
    let mut bench = deep();
    bench.submit(ask(1, own(1, 3), 5)).unwrap();
    bench.launch();
    assert_eq!(bench.flights.len(), 2);
    assert_eq!(bench.steps[0].rows[0].input, Input::Tokens(own(1, 3)));
    assert_eq!(bench.steps[1].rows[0].input, Input::FromPrevious);
    assert_eq!((bench.steps[1].rows[0].start, bench.steps[1].rows[0].draw.as_ref().unwrap().index), (3, 1));
}

#[test]
fn a_token_that_has_arrived_is_sent() {
    let mut bench = Bench::new(limits());
    bench.submit(ask(1, own(1, 3), 3)).unwrap();
    bench.run();
    assert_eq!(bench.steps[1].rows[0].input, Input::Tokens(vec![100]));
}

#[test]
fn chunks_of_one_prompt_follow_each_other_in_flight() {
    let mut bench = deep();
    bench.submit(ask(1, own(1, 40), 2)).unwrap();
    bench.launch();
    assert_eq!((bench.shape(0), bench.shape(1)), (vec![(1, 16)], vec![(1, 16)]));
    assert_eq!(bench.steps[1].rows[0].start, 16);
    assert!(bench.steps[1].rows[0].draw.is_none());
}

#[test]
fn no_step_is_launched_for_a_row_whose_last_token_is_in_flight() {
    let mut bench = deep();
    bench.submit(ask(1, own(1, 3), 2)).unwrap();
    bench.run();
    assert_eq!(bench.steps.len(), 2);
    assert_eq!(bench.tokens(1), [100, 101]);
}

#[test]
fn a_row_that_stopped_drops_its_extra_token_and_keeps_its_blocks_until_then() {
    let mut bench = deep();
    bench.script = |_, index| if index == 1 { STOP } else { index };
    bench.submit(ask(1, own(1, 3), 9)).unwrap();
    bench.launch();
    bench.done();
    bench.launch();
    bench.done(); // The stop token arrives; step 3 is in flight.
    bench.launch();
    let release = bench.wants.iter().find(|want| matches!(want, Want::Release { .. }));
    assert_eq!(release, Some(&Want::Release { seq: kv::SeqId(1), after: Some(StepId(3)) }));
    assert!(bench.pool.ledger().held > 0);
    bench.run();
    assert_eq!(bench.pool.ledger().held, 0);
    assert_eq!((bench.tokens(1), bench.finished(1).unwrap().2.generated), (vec![0], 2));
    assert_eq!(bench.steps.len(), 3);
}

#[test]
fn depth_changes_no_token() {
    let tokens = |depth| {
        let mut bench = Bench::new(Limits { depth, pool_tokens: 96, batch: 4, ..limits() });
        bench.script = |seq, index| {
            if index == 5 + seq as u32 { STOP } else { seq as u32 * 10 + index }
        };
        for seq in 1..=9 {
            bench.submit(ask(seq, own(seq, 3 * seq as u32), 12)).unwrap();
        }
        bench.run();
        (1..=9).map(|seq| bench.tokens(seq)).collect::<Vec<_>>()
    };
    assert_eq!(tokens(1), tokens(2));
}

#[test]
fn nothing_is_asked_while_a_turn_is_open_or_nothing_changed() {
    let mut bench = deep();
    assert_eq!(bench.scheduler.begin_turn(0), None);
    bench.submit(ask(1, own(1, 3), 5)).unwrap();
    let wants = bench.scheduler.begin_turn(0).unwrap();
    assert_eq!(bench.scheduler.begin_turn(0), None, "a turn is open");
    let settled = bench.pool.settle(wants);
    bench.scheduler.settled(settled.clone(), 0);
    assert_eq!(bench.scheduler.settled(settled.clone(), 0), scheduler::Turn::Idle, "an answer counts once");
    let wants = bench.scheduler.begin_turn(0).unwrap();
    assert_eq!(bench.scheduler.settled(settled, 0), scheduler::Turn::Idle, "and is to one list");
    let settled = bench.pool.settle(wants);
    assert!(matches!(bench.scheduler.settled(settled, 0), scheduler::Turn::Step(_)));
}

#[test]
fn a_row_asks_for_room_only_where_its_blocks_are_full() {
    let mut bench = deep();
    bench.submit(ask(1, own(1, 4), 9)).unwrap();
    bench.run();
    let grown: Vec<u32> = bench.wants.iter().filter_map(|want| if let Want::Grow { tokens, .. } = want { Some(*tokens) } else { None }).collect();
    assert_eq!(grown, [5, 9]);
}
