//! Preemption and loss of the model: rows resume, and their clients see the same tokens.

use crate::bench::{Bench, STOP, ask, limits, own};
use kv::{BlockId, Grant, Ledger, RowFault, RowResult, SeqId, Settled, Step, StepDone, StepId, Want, Wants};
use scheduler::{Event, Limits, Scheduler, Turn};

fn tokens_of(seq: u64, count: u32) -> Vec<u32> {
    (0..count).map(|index| seq as u32 * 100 + index).collect()
}

#[test]
fn the_youngest_makes_room_and_resumes_before_the_queue() {
    for depth in [1, 2] {
        let limits = Limits { pool_tokens: 64, batch: 3, depth, ..limits() };
        let mut bench = Bench::new(limits);
        for seq in 1..=4 {
            bench.submit(ask(seq, own(seq, 8), 30)).unwrap();
        }
        bench.run();
        let preempted: Vec<u64> = bench.events.iter().filter(|event| matches!(event, Event::Preempted { .. })).map(|event| event.seq().0).collect();
        assert!(!preempted.is_empty() && !preempted.contains(&1), "{preempted:?}");
        assert_eq!(bench.admitted(), [1, 2, 3, 4]);
        for seq in 1..=4 {
            assert_eq!(bench.tokens(seq), tokens_of(seq, 30), "depth {depth}, row {seq}");
            let times = preempted.iter().filter(|other| **other == seq).count() as u32;
            assert_eq!(bench.finished(seq).unwrap().2.preemptions, times);
        }
    }
}

#[test]
fn admission_leaves_room_instead_of_thrashing() {
    // Eight blocks, of which the first row has six. The second row's prompt would fit into the two that are left, but then neither
    // the first row could grow, if it has to, nor the second decode: it would be preempted at once.
    for first_grows_to in [32, 24] {
        let mut bench = Bench::new(Limits { pool_tokens: 32, ..limits() });
        bench.submit(ask(1, own(1, 21), first_grows_to - 21)).unwrap();
        while bench.tokens(1).is_empty() {
            bench.step();
        }
        bench.submit(ask(2, own(2, 8), 3)).unwrap();
        bench.run();
        let preempted = bench.events.iter().any(|event| matches!(event, Event::Preempted { .. }));
        assert!(!preempted, "{first_grows_to}: {:?}", bench.events);
        assert_eq!(bench.tokens(2), tokens_of(2, 3));
    }
}

#[test]
fn an_admission_spares_what_the_rows_before_it_need_soon() {
    let mut bench = Bench::new(limits());
    bench.submit(ask(1, own(1, 21), 11)).unwrap();
    bench.step();
    bench.submit(ask(2, own(2, 8), 3)).unwrap();
    bench.submit(ask(3, own(3, 5), 1)).unwrap();
    bench.launch();
    // Rows 1 and 2 have full or nearly full blocks and need another to decode into; row 3 does not.
    assert_eq!(bench.spares(), [(1, 1), (2, 2), (3, 2)]);
}

#[test]
fn blocks_that_come_back_soon_are_waited_for() {
    // Nine blocks, three for each row. Rows 1 and 3 need a fourth just when row 2 has stopped, with a step of its in flight.
    let mut bench = Bench::new(Limits { pool_tokens: 36, depth: 2, ..limits() });
    bench.script = |seq, index| if (seq, index) == (2, 5) { STOP } else { seq as u32 * 100 + index };
    for seq in 1..=3 {
        bench.submit(ask(seq, own(seq, 6), 10)).unwrap();
    }
    bench.run();
    assert_eq!(bench.finished(2).unwrap().2.generated, 6);
    assert!(!bench.events.iter().any(|event| matches!(event, Event::Preempted { .. })), "{:?}", bench.events);
}

#[test]
fn a_row_that_needs_the_whole_pool_runs_alone() {
    let mut bench = Bench::new(Limits { pool_tokens: 32, ..limits() });
    for seq in 1..=3 {
        bench.submit(ask(seq, own(seq, 31), 1)).unwrap();
        bench.submit(ask(10 + seq, own(10 + seq, 1), 31)).unwrap();
    }
    bench.run();
    assert_eq!(bench.tokens(13), tokens_of(13, 31));
}

#[test]
fn a_lost_model_costs_a_pause_and_no_token() {
    for depth in [1, 2] {
        let mut bench = Bench::new(Limits { depth, ..limits() });
        bench.submit(ask(1, own(1, 8), 9)).unwrap();
        bench.submit(ask(2, own(2, 40), 9)).unwrap();
        for _ in 0..3 {
            bench.step();
        }
        bench.launch();
        let old = bench.flights.pop_front().unwrap();
        bench.flights.clear();
        bench.scheduler.model_lost(bench.now_us);
        let late = StepDone { id: old.id, results: Vec::new(), micros: 1 };
        assert_eq!(bench.scheduler.step_done(late, bench.now_us), [], "a late answer says nothing");
        bench.wants.clear();
        bench.run();
        assert_eq!(bench.wants[0], Want::Void);
        for seq in [1, 2] {
            assert_eq!(bench.tokens(seq), tokens_of(seq, 9), "depth {depth}, row {seq}");
            assert_eq!(bench.finished(seq).unwrap().2.restarts, 1);
        }
    }
}

#[test]
fn rows_resume_in_order() {
    let mut bench = Bench::new(limits());
    for seq in 1..=5 {
        bench.submit(ask(seq, own(seq, 4), 9)).unwrap();
        bench.step();
    }
    bench.scheduler.model_lost(bench.now_us);
    bench.flights.clear();
    bench.launch();
    let resumed: Vec<u64> = bench.events.iter().filter(|event| matches!(event, Event::Resumed { .. })).map(|event| event.seq().0).collect();
    assert_eq!(resumed, [1, 2, 3, 4, 5]);
}

#[test]
fn a_row_cancelled_while_its_admission_is_settled_leaves_nothing() {
    let mut bench = Bench::new(limits());
    bench.submit(ask(1, own(1, 8), 9)).unwrap();
    let wants = bench.scheduler.begin_turn(0).unwrap();
    let settled = bench.pool.settle(wants);
    bench.scheduler.cancel(SeqId(1));
    let scheduler::Turn::Settle(more) = bench.scheduler.settled(settled, 0) else { panic!("the blocks go back") };
    let settled = bench.pool.settle(more);
    assert_eq!(bench.scheduler.settled(settled, 0), scheduler::Turn::Idle);
    assert_eq!(bench.pool.ledger().free, bench.pool.ledger().total);
    assert_eq!(bench.events, []);
}

#[test]
fn a_loss_while_a_turn_is_open_makes_its_answer_void() {
    let mut bench = Bench::new(limits());
    bench.submit(ask(1, own(1, 8), 2)).unwrap();
    let wants = bench.scheduler.begin_turn(0).unwrap();
    let settled = bench.pool.settle(wants);
    bench.scheduler.model_lost(0);
    assert_eq!(bench.scheduler.settled(settled, 0), scheduler::Turn::Idle);
    let again = bench.scheduler.begin_turn(0).unwrap();
    assert_eq!(again.list[0], Want::Void);
    let settled = bench.pool.settle(again);
    assert!(matches!(bench.scheduler.settled(settled, 0), scheduler::Turn::Step(_)));
}

/// Found by the simulator: the oldest row decodes, but the step has no room for it; the prompt that has room is preempted for want of
/// a block, the step stays empty, and nobody planned again.
#[test]
fn a_preemption_that_empties_a_step_wakes_the_oldest_row() {
    for steps_before in 0..16 {
        let limits = Limits { batch: 16, prefill_chunk: 21, step_tokens: 2, context: 32, pool_tokens: 35, block_tokens: 1, ..limits() };
        let mut bench = Bench::new(limits);
        bench.submit(ask(1, own(1, 16), 13)).unwrap();
        for _ in 0..steps_before {
            bench.step();
        }
        for seq in [2, 3] {
            bench.submit(ask(seq, own(2, 14), 4)).unwrap();
        }
        bench.run();
    }
}

/// Its blocks are in the prefix index by then, and what they hold may be as bad as what was drawn from it.
#[test]
fn what_a_preempted_row_computed_is_not_reused_once_its_numbers_are_bad() {
    let mut bench = Bench::new(Limits { batch: 2, depth: 2, pool_tokens: 32, ..limits() });
    bench.submit(ask(1, own(1, 8), 24)).unwrap();
    bench.submit(ask(2, own(2, 11), 12)).unwrap();
    let preempted = |bench: &Bench| bench.events.iter().any(|event| matches!(event, Event::Preempted { seq } if seq.0 == 2));
    let flying = |bench: &Bench| bench.flights.iter().flat_map(|step| &step.rows).any(|row| row.seq.0 == 2 && row.draw.is_some());
    loop {
        bench.launch();
        if preempted(&bench) && flying(&bench) {
            break;
        }
        assert!(bench.done(), "row 2 is never preempted with a draw in flight");
    }
    while let Some(step) = bench.flights.pop_front() {
        let drawn = step.rows.iter().filter(|row| row.draw.is_some());
        let token = |seq: SeqId| if seq.0 == 2 { Err(RowFault::NotFinite) } else { Ok(5) };
        let results = drawn.map(|row| RowResult::new(row.seq, token(row.seq))).collect();
        let events = bench.scheduler.step_done(StepDone { id: step.id, results, micros: 1000 }, bench.now_us);
        bench.events.extend(events);
    }
    bench.submit(ask(3, own(2, 11), 1)).unwrap();
    bench.run();
    assert_eq!(bench.finished(3).unwrap().2.cached, 0);
}

/// A row may be admitted again before a step of its earlier life is done. What that step computed is not in the blocks it has now.
#[test]
fn what_an_earlier_life_computed_is_not_sealed_in_the_blocks_of_this_one() {
    let mut scheduler = Scheduler::new(Limits { depth: 2, prefix_cache: false, ..limits() });
    scheduler.submit(ask(1, own(1, 4), 30), 0).unwrap();
    scheduler.submit(ask(2, own(2, 40), 30), 0).unwrap();
    let admitted = |table: std::ops::Range<u32>| Grant::Admitted { cached: 0, table: table.map(BlockId).collect(), copy: None };
    let grown = || Grant::Grown { new: [BlockId(90)].into_iter().collect() };
    let mut wants = scheduler.begin_turn(0).unwrap();
    // Both enter; row 1 falls short, and row 2 makes room, with its first chunk in flight; its blocks are held; then there is room for all.
    let answers = [(vec![admitted(1..2), admitted(2..6)], 0), (vec![], 0), (vec![], 4), (vec![grown(), admitted(10..14)], 0)];
    let (mut steps, mut asked) = (Vec::new(), Vec::new());
    for (grants, held) in answers {
        let ledger = Ledger { held, ..Ledger::default() };
        match scheduler.settled(Settled { turn: wants.turn, grants, ledger, room: Vec::new() }, 0) {
            Turn::Settle(more) => {
                asked.push(more.list.iter().filter(|want| matches!(want, Want::Grow { .. } | Want::Admit { .. })).count());
                wants = more;
            }
            Turn::Step(step) => {
                steps.push(step);
                wants = scheduler.begin_turn(0).unwrap_or(Wants::new(0, Vec::new()));
            }
            Turn::Idle => panic!("{:?}", scheduler.snapshot()),
        }
    }
    assert_eq!(asked, [1, 2], "row 1's growth again at once, and row 2's admission in another turn");
    let rows = |step: &Step| step.rows.iter().map(|row| (row.seq.0, row.start, row.input.count())).collect::<Vec<_>>();
    assert_eq!(steps.iter().map(rows).collect::<Vec<_>>(), [[(1, 0, 4), (2, 0, 16)], [(1, 4, 1), (2, 0, 16)]]);
    let mut seals = |id, token| {
        scheduler.step_done(StepDone { id: StepId(id), results: vec![RowResult::new(SeqId(1), Ok(token))], micros: 1 }, 0);
        let wants = scheduler.begin_turn(0).unwrap();
        let seals = wants.list.iter().filter_map(|want| if let Want::Seal { seq, tokens } = want { Some((seq.0, tokens.len())) } else { None });
        let seals: Vec<_> = seals.collect();
        scheduler.settled(Settled { turn: wants.turn, grants: vec![], ledger: Ledger { held: 9, ..Ledger::default() }, room: Vec::new() }, 0);
        seals
    };
    assert_eq!(seals(1, 7), [(1, 4)], "of the first step row 2 has nothing any more");
    assert_eq!(seals(2, 8), [(1, 1), (2, 16)]);
}
