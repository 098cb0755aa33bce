//! How rows end, and how they are refused.

use crate::bench::{Bench, STOP, ask, limits, own};
use kv::{RowFault, RowResult, StepDone};
use scheduler::{Event, Limits, Reason, Refusal, Submit};

#[test]
fn refusals() {
    let limits = Limits { context: 100, pool_tokens: 80, queue: 2, ..limits() };
    let rows: &[(u32, u32, Option<Refusal>)] = &[
        (0, 5, Some(Refusal::Empty)),
        (5, 0, Some(Refusal::Empty)),
        (90, 11, Some(Refusal::TooLong { need_tokens: 101, context: 100 })),
        (5, u32::MAX, Some(Refusal::TooLong { need_tokens: u64::from(u32::MAX) + 5, context: 100 })),
        (90, 10, Some(Refusal::NeverFits { need_tokens: 100, pool_tokens: 80 })),
        (70, 11, Some(Refusal::NeverFits { need_tokens: 81, pool_tokens: 80 })),
        (70, 10, None),
        (1, 1, None),
        (1, 1, Some(Refusal::QueueFull { waiting: 2 })),
    ];
    let mut bench = Bench::new(limits);
    for (seq, (prompt, max_tokens, refusal)) in rows.iter().enumerate() {
        let said = bench.submit(ask(seq as u64, own(seq as u64, *prompt), *max_tokens)).err();
        assert_eq!(said, *refusal, "{prompt} + {max_tokens}");
    }
    bench.run();
    bench.scheduler.drain();
    assert_eq!(bench.submit(ask(100, own(100, 1), 1)), Err(Refusal::Draining));
}

/// A row of `own(1, 5)` that draws STOP from index 2 on.
fn stopping(change: impl Fn(&mut Submit)) -> Bench {
    let mut bench = Bench::new(Limits { depth: 2, ..limits() });
    bench.script = |_, index| if index >= 2 { STOP } else { index };
    let mut submit = ask(1, own(1, 5), 6);
    change(&mut submit);
    bench.submit(submit).unwrap();
    bench.run();
    bench
}

#[test]
fn a_stop_token_counts_but_is_not_delivered() {
    let bench = stopping(|_| {});
    assert_eq!(bench.tokens(1), [0, 1]);
    let (reason, stop_token, counts) = bench.finished(1).unwrap();
    assert_eq!((reason, stop_token, counts.generated), (Reason::Stop, true, 3));
}

#[test]
fn a_stop_token_at_the_limit_is_a_stop() {
    let bench = stopping(|submit| submit.max_tokens = 3);
    assert_eq!(bench.finished(1).unwrap().0, Reason::Stop);
}

#[test]
fn a_row_at_its_limit_has_its_length() {
    let bench = stopping(|submit| submit.max_tokens = 2);
    let (reason, stop_token, counts) = bench.finished(1).unwrap();
    assert_eq!((reason, stop_token, counts.generated), (Reason::Length, false, 2));
}

#[test]
fn stop_tokens_are_banned_below_min_tokens() {
    let bench = stopping(|submit| submit.min_tokens = 2);
    let banned: Vec<_> =
        bench.steps.iter().flat_map(|step| &step.rows).filter_map(|row| row.draw.as_ref().map(|draw| (draw.index, draw.banned.clone()))).collect();
    assert_eq!(banned[..3], [(0, vec![STOP]), (1, vec![STOP]), (2, vec![])]);
    assert_eq!(bench.finished(1).unwrap().2.generated, 3);
}

#[test]
fn ignore_eos_makes_stop_tokens_ordinary() {
    let bench = stopping(|submit| (submit.ignore_eos, submit.min_tokens) = (true, 5));
    assert_eq!(bench.tokens(1), [0, 1, STOP, STOP, STOP, STOP]);
    let mut draws = bench.steps.iter().flat_map(|s| &s.rows).filter_map(|r| r.draw.as_ref());
    assert!(draws.all(|draw| draw.banned.is_empty()));
}

#[test]
fn a_cancelled_row_is_silent_and_gives_its_blocks_back() {
    let mut bench = Bench::new(Limits { depth: 2, ..limits() });
    bench.submit(ask(1, own(1, 30), 50)).unwrap();
    bench.submit(ask(2, own(2, 5), 3)).unwrap();
    bench.submit(ask(3, own(3, 5), 3)).unwrap();
    bench.scheduler.cancel(kv::SeqId(3));
    bench.step();
    bench.step();
    bench.step();
    let heard = bench.events.len();
    for _ in 0..3 {
        bench.scheduler.cancel(kv::SeqId(1));
        bench.scheduler.cancel(kv::SeqId(77));
    }
    bench.run();
    assert!(bench.events[heard..].iter().all(|event| event.seq().0 == 2), "{:?}", bench.events);
    assert!(!bench.events.iter().any(|event| event.seq().0 == 3));
    assert_eq!((bench.pool.ledger().rows, bench.pool.ledger().held), (0, 0));
}

#[test]
fn cancelling_a_row_takes_back_its_events_and_no_others() {
    let mut bench = Bench::new(limits());
    for seq in 1..=3 {
        bench.submit(ask(seq, own(seq, 5), 3)).unwrap();
    }
    let wants = bench.scheduler.begin_turn(0).unwrap();
    let settled = bench.pool.settle(wants);
    bench.scheduler.settled(settled, 0);
    bench.scheduler.cancel(kv::SeqId(2));
    let heard: Vec<u64> = bench.scheduler.take_events().iter().map(|event| event.seq().0).collect();
    assert_eq!(heard, [1, 3]);
}

#[test]
fn one_rows_bad_numbers_end_that_row_alone_and_are_not_reused() {
    let mut bench = Bench::new(limits());
    bench.submit(ask(1, own(1, 9), 4)).unwrap();
    bench.submit(ask(2, own(2, 9), 4)).unwrap();
    bench.step();
    bench.launch();
    let step = bench.flights.pop_front().unwrap();
    let results = vec![RowResult::new(kv::SeqId(1), Err(RowFault::NotFinite)), RowResult::new(kv::SeqId(2), Ok(7))];
    let events = bench.scheduler.step_done(StepDone { id: step.id, results, micros: 1 }, 0);
    bench.events.extend(events);
    bench.run();
    assert_eq!(bench.finished(1).unwrap().0, Reason::Fault(RowFault::NotFinite));
    assert_eq!(bench.finished(2).unwrap().0, Reason::Length);
    for (seq, of, expected) in [(3, 1, 0), (4, 2, 8)] {
        bench.submit(ask(seq, own(of, 9), 1)).unwrap();
        bench.run();
        let admitted = bench.events.iter().find(|event| event.seq().0 == seq);
        assert!(matches!(admitted, Some(Event::Admitted { cached, .. }) if *cached == expected), "{admitted:?}");
    }
}

#[test]
fn drain_ends_what_is_there() {
    let mut bench = Bench::new(Limits { batch: 2, depth: 2, ..limits() });
    for seq in 1..=6 {
        bench.submit(ask(seq, own(seq, 9), 5)).unwrap();
    }
    bench.step();
    bench.scheduler.drain();
    assert!(!bench.scheduler.is_empty());
    bench.run();
    assert!((1..=6).all(|seq| bench.finished(seq).is_some()));
    assert!(bench.scheduler.snapshot().draining);
}
