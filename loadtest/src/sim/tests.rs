//! The simulator holds what it should, meets what it is there for, and can fail: planted bugs are caught and cut down.

use super::script::{Script, What};
use super::seam::{Seam, Straight};
use super::seen::Seen;
use super::shrink::shrink;
use super::trial::{self, Broken, Failure};
use kv::invariants::Invariant::{K4, S3, S6};
use kv::{Invariant, Pool, Settled, Want, Wants};
use scheduler::Event;

const HOURS: u32 = 1;

#[test]
fn invariants_hold_and_rare_things_happen() {
    let mut sum = Seen::default();
    for seed in 0..400 {
        match trial::run(&Script::of(seed, HOURS), &mut Straight) {
            Ok(seen) => sum += seen,
            Err(failure) => panic!("seed {seed}: {failure:?}"),
        }
    }
    assert!(sum.all().into_iter().all(|(_, count)| count >= 40), "{sum:?}");
}

#[test]
fn invariants_hold_over_a_long_run() {
    for seed in 1_000..1_008 {
        let seen = trial::run(&Script::of(seed, 48), &mut Straight).unwrap_or_else(|failure| panic!("seed {seed}: {failure:?}"));
        assert!(seen.virtual_us >= 48 * 3_600_000_000 && seen.accepted > 100, "seed {seed}: {seen:?}");
    }
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..20 {
        let run = || trial::run(&Script::of(seed, HOURS), &mut Straight).unwrap();
        assert_eq!(run(), run(), "seed {seed}");
    }
}

/// Blocks of a row that is still in a step come back too early.
struct FreesEarly;

impl Seam for FreesEarly {
    fn settle(&mut self, pool: &mut Pool, mut wants: Wants) -> Settled {
        for want in &mut wants.list {
            if let Want::Release { after, .. } = want {
                *after = None;
            }
        }
        pool.settle(wants)
    }

    fn events(&mut self, events: Vec<Event>) -> Vec<Event> {
        events
    }
}

/// A block more goes back than lies behind the window.
struct GivesUpTooMuch;

impl Seam for GivesUpTooMuch {
    fn settle(&mut self, pool: &mut Pool, mut wants: Wants) -> Settled {
        let size = pool.config().block_tokens;
        for want in &mut wants.list {
            if let Want::Behind { tokens, .. } = want {
                *tokens += size;
            }
        }
        pool.settle(wants)
    }

    fn events(&mut self, events: Vec<Event>) -> Vec<Event> {
        events
    }
}

/// What lies behind is free at once, and a step in flight still reads it.
struct ForgetsWhoReads;

impl Seam for ForgetsWhoReads {
    fn settle(&mut self, pool: &mut Pool, mut wants: Wants) -> Settled {
        for want in &mut wants.list {
            if let Want::Behind { after, .. } = want {
                *after = None;
            }
        }
        pool.settle(wants)
    }

    fn events(&mut self, events: Vec<Event>) -> Vec<Event> {
        events
    }
}

/// Every fourth token of a row gets lost on its way to the client.
struct DropsTokens;

impl Seam for DropsTokens {
    fn settle(&mut self, pool: &mut Pool, wants: Wants) -> Settled {
        pool.settle(wants)
    }

    fn events(&mut self, mut events: Vec<Event>) -> Vec<Event> {
        events.retain(|event| !matches!(event, Event::Token { index: 3, .. }));
        events
    }
}

/// The pool is told of tokens in the wrong order, so that its prefixes are not what they say.
struct SealsWrongly;

impl Seam for SealsWrongly {
    fn settle(&mut self, pool: &mut Pool, mut wants: Wants) -> Settled {
        for want in &mut wants.list {
            if let Want::Seal { tokens, .. } = want {
                tokens.reverse();
            }
        }
        pool.settle(wants)
    }

    fn events(&mut self, events: Vec<Event>) -> Vec<Event> {
        events
    }
}

/// A pool that panics is a finding like any other.
struct AdmitsTwice;

impl Seam for AdmitsTwice {
    fn settle(&mut self, pool: &mut Pool, mut wants: Wants) -> Settled {
        let again = wants.list.iter().rev().find(|want| matches!(want, Want::Admit { .. })).cloned();
        wants.list.extend(again);
        pool.settle(wants)
    }

    fn events(&mut self, events: Vec<Event>) -> Vec<Event> {
        events
    }
}

/// The first seed that a bug fails, cut down, and the kind of its failure.
fn caught<S: Seam>(bug: impl Fn() -> S) -> (u64, Failure, Script, Failure) {
    let trial = |script: &Script| trial::run(script, &mut bug()).err();
    let (seed, first) = (0..200).find_map(|seed| Some((seed, trial(&Script::of(seed, HOURS))?))).expect("200 seeds meet the bug");
    let (script, failure) = shrink(&Script::of(seed, HOURS), first.clone(), trial);
    (seed, first, script, failure)
}

fn check<S: Seam>(bug: impl Fn() -> S, kind: Option<Invariant>, most: usize) {
    let (seed, first, script, failure) = caught(&bug);
    assert_eq!((first.what.kind(), failure.what.kind()), (kind, kind), "seed {seed}: {first:?}");
    assert!(script.acts.len() <= most, "seed {seed}: {} acts of {}", script.acts.len(), first.acts);
    // What is left needs all of it, and is no failure without the bug.
    for index in 0..script.acts.len() {
        let mut less = script.clone();
        less.acts.remove(index);
        let again = trial::run(&less, &mut bug()).err();
        assert!(again.is_none_or(|failure| failure.what.kind() != kind), "act {index} is not needed: {:?}", script.acts[index]);
    }
    assert!(trial::run(&script, &mut Straight).is_ok(), "{:?}", script.acts);
}

#[test]
fn a_block_freed_early_is_caught_and_cut_down() {
    check(|| FreesEarly, Some(S6), 6);
}

#[test]
fn what_goes_back_while_a_step_reads_it_is_caught_and_cut_down() {
    check(|| ForgetsWhoReads, Some(S6), 6);
}

#[test]
fn a_block_given_up_too_soon_is_caught() {
    let (_, first, script, failure) = caught(|| GivesUpTooMuch);
    assert!(script.acts.len() <= 3, "{first:?} {failure:?}: {:?}", script.acts);
    assert!(trial::run(&script, &mut Straight).is_ok(), "{:?}", script.acts);
}

#[test]
fn a_dropped_token_is_caught_and_cut_down_to_one_request() {
    check(|| DropsTokens, Some(S3), 1);
}

#[test]
fn a_wrong_prefix_is_caught_and_cut_down() {
    check(|| SealsWrongly, Some(K4), 3);
}

#[test]
fn a_panic_is_caught_and_cut_down_to_one_request() {
    let (_, first, script, failure) = caught(|| AdmitsTwice);
    assert!(matches!(&failure.what, Broken::Panic(why) if why.contains("admitted twice")), "{first:?} {failure:?}");
    assert!(matches!(&script.acts[..], [act] if matches!(act.what, What::Submit(_))), "{:?}", script.acts);
}
