//! Keys share the machine by weight; within a key, priority and arrival decide.

use crate::bench::{Bench, ask, limits, own};
use kv::SeqId;
use scheduler::{Event, KeyId, Limits, Submit};

fn of_key(key: u32, weight: u32, submit: Submit) -> Submit {
    Submit { key: KeyId(key), weight, ..submit }
}

fn one_at_a_time() -> Bench {
    Bench::new(Limits { batch: 1, queue: 500, ..limits() })
}

#[test]
fn within_a_key_priority_then_arrival() {
    let mut bench = one_at_a_time();
    for (seq, priority) in [(1, 5), (4, 0), (5, -1), (2, 0), (3, -1)] {
        bench.submit(Submit { priority, ..ask(seq, own(seq, 4), 1) }).unwrap();
    }
    bench.run();
    assert_eq!(bench.admitted(), [5, 3, 4, 2, 1]);
}

#[test]
fn a_flood_of_one_key_does_not_delay_another() {
    let mut bench = one_at_a_time();
    for seq in 1..=50 {
        bench.submit(of_key(1, 1, ask(seq, own(seq, 8), 4))).unwrap();
    }
    bench.step();
    bench.submit(of_key(2, 1, ask(100, own(100, 8), 4))).unwrap();
    bench.run();
    let place = bench.admitted().iter().position(|seq| *seq == 100).unwrap();
    assert!(place <= 2, "admitted as number {place}");
}

/// It starts where the flood stands, whether or not that is charged anything before the next place is free. Only where nothing was served
/// at all, the flood's first row came first.
#[test]
fn one_among_a_hundred_is_next() {
    for (tokens, steps) in [1, 2, 4].into_iter().flat_map(|tokens| (0..6).map(move |steps| (tokens, steps))) {
        let mut bench = one_at_a_time();
        for seq in 1..=100 {
            bench.submit(of_key(1, 1, ask(seq, own(seq, 8), tokens))).unwrap();
        }
        (0..steps).for_each(|_| assert!(bench.step()));
        let before = bench.admitted().len();
        bench.submit(of_key(2, 1, ask(500, own(500, 8), tokens))).unwrap();
        bench.run();
        let place = bench.admitted()[before..].iter().position(|seq| *seq == 500).unwrap();
        assert_eq!(place, usize::from(steps == 0), "answers of {tokens}, after {steps} steps: so many before it");
    }
}

/// Rows that run hold their places whatever is charged for them. Somebody who comes, or comes again, waits for none of that: not for
/// what was served while a flood of another key waited for a place.
#[test]
fn rows_that_run_long_do_not_delay_who_comes() {
    for (long_keys, rows_each) in [(3, 1), (1, 3)] {
        let mut bench = Bench::new(Limits { batch: 4, queue: 4000, pool_tokens: 1 << 16, context: 8000, prefix_cache: false, ..limits() });
        for i in 0..long_keys * rows_each {
            bench.submit(of_key(10 + i / rows_each, 1, ask(i.into(), own(i.into(), 8), 6000))).unwrap();
        }
        bench.step();
        for seq in 1000..2000 {
            bench.submit(of_key(8, 1, ask(seq, own(seq, 8), 10))).unwrap();
        }
        for turn in 0..20 {
            (0..50).for_each(|_| assert!(bench.step()));
            let (seq, before) = (5000 + turn, bench.admitted().len());
            bench.submit(of_key(9, 1, ask(seq, own(seq, 8), 10))).unwrap();
            while bench.finished(seq).is_none() {
                assert!(bench.step());
            }
            let place = bench.admitted()[before..].iter().position(|other| *other == seq).unwrap();
            assert!(place <= 2, "request {turn} went after {place} others, beside {rows_each} rows of each of {long_keys} keys");
        }
    }
}

#[test]
fn shares_follow_weights() {
    let mut bench = one_at_a_time();
    for seq in 0..100 {
        bench.submit(of_key(1, 1, ask(seq, own(seq, 8), 4))).unwrap();
        bench.submit(of_key(2, 3, ask(200 + seq, own(200 + seq, 8), 4))).unwrap();
    }
    bench.run();
    let first: Vec<u64> = bench.admitted().into_iter().take(80).collect();
    let heavy = first.iter().filter(|seq| **seq >= 200).count();
    assert!((58..=62).contains(&heavy), "{heavy} of 80 for three quarters");
}

#[test]
fn rows_admitted_in_one_turn_take_turns_between_keys() {
    // The second key's prompts are of so many tokens, at such a weight; the first key's of eight. Of equal charges the older row goes.
    let rows: &[(u32, u32, [u64; 6])] = &[(8, 1, [1, 11, 2, 12, 3, 13]), (2, 1, [1, 11, 12, 13, 14, 2]), (8, 2, [1, 11, 12, 2, 13, 14])];
    for (prompt, weight, expected) in rows {
        let mut bench = Bench::new(Limits { batch: 6, ..limits() });
        for seq in 1..=4 {
            bench.submit(of_key(1, 1, ask(seq, own(seq, 8), 4))).unwrap();
        }
        for seq in 11..=14 {
            bench.submit(of_key(2, *weight, ask(seq, own(seq, *prompt), 4))).unwrap();
        }
        bench.launch();
        assert_eq!(bench.admitted(), expected, "prompts of {prompt} at weight {weight}");
    }
}

/// S8: among keys that always have rows waiting, charges stay within what the rows running at once can add.
#[test]
fn charges_of_waiting_keys_stay_close() {
    let mut bench = Bench::new(Limits { batch: 4, queue: 1000, depth: 2, ..limits() });
    let mut seq = 0;
    for _ in 0..100 {
        for key in 1..=3u32 {
            // Keys differ in how long their prompts and answers are.
            let submit = ask(seq, own(seq, 4 * key * key), 14 / key);
            bench.submit(of_key(key, 1, submit)).unwrap();
            seq += 1;
        }
    }
    let one_row = (4 * 9 + 2 * 14) as u64;
    loop {
        assert!(bench.step());
        let keys = bench.scheduler.snapshot().keys;
        if keys.len() < 3 || keys.iter().any(|key| key.waiting == 0) {
            break;
        }
        let charges: Vec<u64> = keys.iter().map(|key| key.charged).collect();
        let gap = charges.iter().max().unwrap() - charges.iter().min().unwrap();
        assert!(gap <= 4 * one_row, "{charges:?}");
    }
    bench.run();
}

/// Each new key would be the least charged one, and an old key with a debt would wait as long as they keep coming.
#[test]
fn ever_new_keys_do_not_keep_an_old_one_waiting() {
    let mut bench = one_at_a_time();
    for seq in [1, 2] {
        bench.submit(of_key(1, 1, ask(seq, own(seq, 64), 4))).unwrap();
    }
    for seq in 100..200 {
        // Another one is always there before the last one is admitted.
        bench.submit(of_key(seq as u32, 1, ask(seq, own(seq, 16), 2))).unwrap();
        while bench.admitted().len() < (seq - 99) as usize {
            assert!(bench.step());
        }
        if bench.admitted().contains(&2) {
            break;
        }
    }
    // 64 + 8 tokens of debt: of the 16 of a new key, a half counts while two keys wait.
    let place = bench.admitted().iter().position(|seq| *seq == 2);
    assert!(place.is_some_and(|place| place <= 12), "{:?}", bench.admitted());
    bench.run();
}

/// Rows of a flood of key 2 that go before the next one of key 1, after so many steps in which key 1 had more of the machine because
/// key 2 asked for one row only.
fn before_the_next(steps: u32) -> usize {
    let mut bench = Bench::new(Limits { batch: 4, queue: 4000, pool_tokens: 1 << 13, context: 4_000, prefix_cache: false, ..limits() });
    bench.submit(of_key(2, 1, ask(0, own(0, 8), 3_000))).unwrap();
    for seq in 1..=500 {
        bench.submit(of_key(1, 1, ask(seq, own(seq, 8), 10))).unwrap();
    }
    (0..steps).for_each(|_| assert!(bench.step()));
    for seq in 5000..5100 {
        bench.submit(of_key(2, 1, ask(seq, own(seq, 8), 10))).unwrap();
    }
    let before = bench.admitted().len();
    while !bench.admitted()[before..].iter().any(|seq| *seq < 5000) {
        assert!(bench.step());
    }
    bench.admitted().len() - before
}

/// A key that has rows running but none waiting gives up its share for then, as an idle one does: one long row is no way to save up.
#[test]
fn a_key_that_does_not_wait_earns_no_credit() {
    for steps in [50, 300, 1000] {
        let place = before_the_next(steps);
        // Rows of one key that run at once may put it ahead of another by as much as they cost.
        assert!(place <= 8, "after {steps} steps {place} rows of a flood go first");
    }
}

/// The same while nobody waits at all.
#[test]
fn a_key_of_one_row_beside_others_earns_no_credit() {
    for rounds in [1, 30, 100] {
        let mut bench = Bench::new(Limits { batch: 4, queue: 4000, pool_tokens: 1 << 13, context: 4_000, prefix_cache: false, ..limits() });
        bench.submit(of_key(2, 1, ask(0, own(0, 8), 3_000))).unwrap();
        let mut seq = 0;
        for _ in 0..rounds {
            for _ in 0..3 {
                seq += 1;
                bench.submit(of_key(1, 1, ask(seq, own(seq, 8), 10))).unwrap();
            }
            while bench.finished(seq).is_none() {
                assert!(bench.step());
            }
        }
        // Now both have more than fits.
        for seq in 5000..5100 {
            bench.submit(of_key(2, 1, ask(seq, own(seq, 8), 10))).unwrap();
            bench.submit(of_key(1, 1, ask(1000 + seq, own(1000 + seq, 8), 10))).unwrap();
        }
        let before = bench.admitted().len();
        while !bench.admitted()[before..].iter().any(|seq| *seq >= 6000) {
            assert!(bench.step());
        }
        let place = bench.admitted().len() - before;
        assert!(place <= 8, "after {rounds} rounds {place} rows go first");
    }
}

/// As [`ever_new_keys_do_not_keep_an_old_one_waiting`], after a time in which nobody had to wait.
#[test]
fn ever_new_keys_do_not_keep_an_old_one_waiting_after_a_quiet_time() {
    let mut bench = one_at_a_time();
    for seq in 1000..1050 {
        bench.submit(of_key(1, 1, ask(seq, own(seq, 64), 4))).unwrap();
        while bench.finished(seq).is_none() {
            assert!(bench.step());
        }
    }
    for seq in [1, 2] {
        bench.submit(of_key(1, 1, ask(seq, own(seq, 64), 4))).unwrap();
    }
    let before = bench.admitted().len();
    for seq in 100..200 {
        bench.submit(of_key(seq as u32, 1, ask(seq, own(seq, 16), 2))).unwrap();
        while bench.admitted().len() < before + (seq - 99) as usize {
            assert!(bench.step());
        }
        if bench.admitted().contains(&2) {
            break;
        }
    }
    let place = bench.admitted()[before..].iter().position(|seq| *seq == 2);
    assert!(place.is_some_and(|place| place <= 12), "{:?}", &bench.admitted()[before..]);
}

/// Rows that are cancelled while they wait cost their key nothing, and give it nothing; nor do they move other keys.
#[test]
fn cancel_storms_move_nobody() {
    let mut bench = Bench::new(Limits { batch: 2, queue: 4000, prefix_cache: false, ..limits() });
    for seq in 0..200 {
        bench.submit(of_key(1, 1, ask(seq, own(seq, 8), 6))).unwrap();
        bench.submit(of_key(2, 1, ask(1000 + seq, own(1000 + seq, 8), 6))).unwrap();
    }
    let mut storm = 10_000;
    for _ in 0..60 {
        (0..10).for_each(|i| bench.submit(of_key(3, 1, ask(storm + i, own(storm + i, 8), 6))).unwrap());
        bench.launch();
        (0..10).for_each(|i| bench.scheduler.cancel(SeqId(storm + i)));
        storm += 10;
        assert!(bench.step());
    }
    let count = |range: std::ops::Range<u64>| bench.admitted().iter().filter(|seq| range.contains(seq)).count();
    let (one, two) = (count(0..200), count(1000..1200));
    assert!(one.abs_diff(two) <= 2 && one + two >= 15, "{one} and {two}");
}

/// Long rows of a light key, short rows of a heavy one: what is served is as one to three, whatever a row costs.
#[test]
fn shares_are_of_tokens_and_not_of_rows() {
    let mut bench = Bench::new(Limits { batch: 2, queue: 4000, pool_tokens: 1 << 12, prefix_cache: false, ..limits() });
    for seq in 0..100 {
        bench.submit(of_key(1, 1, ask(seq, own(seq, 40), 60))).unwrap();
    }
    for seq in 1000..3000 {
        bench.submit(of_key(2, 3, ask(seq, own(seq, 4), 3))).unwrap();
    }
    (0..1500).for_each(|_| assert!(bench.step()));
    let served = |range: std::ops::Range<u64>| -> u64 {
        let prompt = |seq: u64| if seq < 1000 { 40 } else { 4 };
        let cost = |event: &Event| match event {
            Event::Admitted { seq, .. } if range.contains(&seq.0) => prompt(seq.0),
            Event::Token { seq, .. } if range.contains(&seq.0) => 2,
            _ => 0,
        };
        bench.events.iter().map(cost).sum()
    };
    let (light, heavy) = (served(0..1000), served(1000..3000));
    // Apart by no more than a batch of the longest rows.
    let most = 2 * (40 + 2 * 60);
    assert!(light.abs_diff(heavy / 3) <= most, "{light} to {heavy}");
}
