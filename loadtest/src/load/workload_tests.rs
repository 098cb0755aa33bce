//! Which conversations a seed gives.

use super::*;
use crate::load::keys::Secret;
use std::sync::Arc;
use std::time::Duration;

fn turns(turns: &[&str]) -> Conversation {
    Conversation { before: Vec::new(), turns: turns.iter().map(|t| (*t).to_owned()).collect() }
}

fn of(source: Source) -> Workload {
    let keys = Keys::of_options(&[]).unwrap();
    Workload { source, shape: Shape::default(), habits: Habits::default(), keys, max_tokens: 64, seed: 7 }
}

fn texts(job: &Job) -> Vec<&str> {
    job.turns.iter().map(|turn| turn.text.as_str()).collect()
}

fn jobs(workload: &Workload, next: usize, most: Option<usize>) -> Jobs<Arc<Workload>> {
    Jobs::new(Arc::new(workload.clone()), next, most)
}

#[test]
fn there_are_exactly_as_many_requests_as_asked_for() {
    let workload = of(Source::Listed(vec![turns(&["a"]), turns(&["b", "c"])]));
    for (next, most, expect) in
        [(0, 0, vec![]), (0, 2, vec![vec!["a"], vec!["b"]]), (0, 4, vec![vec!["a"], vec!["b", "c"], vec!["a"]]), (1, 3, vec![vec!["b", "c"], vec!["a"]])]
    {
        let jobs: Vec<Job> = jobs(&workload, next, Some(most)).collect();
        assert_eq!(jobs.iter().map(texts).collect::<Vec<_>>(), expect, "from {next}, {most} requests");
        let mut first = 0;
        for job in &jobs {
            assert_eq!(job.first, first);
            first += job.turns.len();
        }
    }
    let mut endless = jobs(&workload, 0, None);
    assert_eq!(endless.by_ref().take(1000).count(), 1000);
    assert_eq!(endless.reached(), 1000);
}

#[test]
fn a_trace_ends_and_says_how_long_answers_are() {
    let entry = |asks, output_tokens| Entry { at: Duration::ZERO, asks, output_tokens };
    let workload = of(Source::Trace(vec![entry(Asks::Conversation(turns(&["a"])), Some(9)), entry(Asks::Words(3), None)]));
    let jobs: Vec<Job> = jobs(&workload, 0, None).collect();
    assert_eq!(jobs.len(), 2);
    assert_eq!((texts(&jobs[0]), jobs[0].turns[0].max_tokens), (vec!["a"], 9));
    assert_eq!((jobs[1].turns[0].text.split(' ').count(), jobs[1].turns[0].max_tokens), (3, 64));
}

#[test]
fn random_lengths_stay_in_their_spans_and_fill_them() {
    let mut workload = of(Source::Random(Span { min: 5, max: 9 }));
    workload.shape.random_output = Some(Span { min: 2, max: 4 });
    let all: Vec<Job> = jobs(&workload, 0, Some(400)).collect();
    let lengths: std::collections::BTreeSet<usize> = all.iter().map(|j| j.turns[0].text.split(' ').count()).collect();
    let outputs: std::collections::BTreeSet<u32> = all.iter().map(|j| j.turns[0].max_tokens).collect();
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    assert_eq!(outputs.into_iter().collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(all, jobs(&workload, 0, Some(400)).collect::<Vec<_>>());
    assert_ne!(all[0], jobs(&Workload { seed: 8, ..workload }, 0, Some(1)).next().unwrap());
}

#[test]
fn groups_share_their_prefix_and_nothing_else() {
    let system = Message { role: "system".into(), content: "be brief".into() };
    let mut workload = of(Source::Listed(vec![turns(&["a"]), Conversation { before: vec![system], ..turns(&["b"]) }]));
    workload.shape.shared_prefix = Some(20);
    workload.shape.groups = Some(3);
    let all: Vec<Job> = jobs(&workload, 0, Some(200)).collect();
    let mut prefixes = std::collections::BTreeMap::<String, usize>::new();
    for job in &all {
        assert_eq!((job.before.len(), job.before[0].role.as_str()), (1, "system"), "one system message, and it is first");
        let (prefix, own) = job.before[0].content.split_once('\n').unwrap_or((&job.before[0].content, ""));
        assert_eq!(own, if texts(job) == ["b"] { "be brief" } else { "" });
        assert_eq!(prefix.split(' ').count(), 20);
        *prefixes.entry(prefix.to_owned()).or_default() += 1;
    }
    assert_eq!(prefixes.len(), 3);
    // Five standard deviations of a binomial about a third.
    assert!(prefixes.values().all(|&n| (n as f64 - 200.0 / 3.0).abs() < 5.0 * (200.0f64 * 2.0 / 9.0).sqrt()), "{prefixes:?}");
}

#[test]
fn conversations_have_as_many_turns_as_asked_for_and_none_in_common() {
    let list: Vec<Conversation> = (0..1000).map(|i| Conversation::of(format!("prompt {i}"))).collect();
    for source in [Source::Listed(list), Source::Random(Span { min: 8, max: 8 })] {
        let mut workload = of(source);
        workload.shape.turns = Some(Span { min: 2, max: 4 });
        let all: Vec<Job> = (0..200).map(|i| workload.job(i, 0).unwrap()).collect();
        let counts: std::collections::BTreeSet<usize> = all.iter().map(|j| j.turns.len()).collect();
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [2, 3, 4]);
        let distinct: std::collections::BTreeSet<&str> = all.iter().flat_map(texts).collect();
        assert_eq!(distinct.len(), all.iter().map(|j| j.turns.len()).sum::<usize>());
    }
}

#[test]
fn the_shares_that_leave_and_read_slowly_are_those_asked_for() {
    let with = |disconnect, slow_reader| Workload { habits: Habits { disconnect, slow_reader }, ..of(Source::Listed(vec![turns(&["a"])])) };
    let all = |workload: &Workload| -> Vec<Turn> { jobs(workload, 0, Some(1000)).flat_map(|job| job.turns).collect() };
    for (share, low, high) in [(0.0, 0, 0), (0.25, 200, 300), (1.0, 1000, 1000)] {
        let turns = all(&with(share, share));
        let leaving = turns.iter().filter(|t| t.leave_after.is_some()).count();
        let slow = turns.iter().filter(|t| t.slow).count();
        assert!((low..=high).contains(&leaving) && (low..=high).contains(&slow), "{share}: {leaving} leave, {slow} are slow");
    }
    assert!(all(&with(1.0, 0.0)).iter().all(|t| (1..=32).contains(&t.leave_after.unwrap())));
    let short = Workload { max_tokens: 1, ..with(1.0, 0.0) };
    assert!(all(&short).iter().all(|t| t.leave_after == Some(1)));
    // Who leaves is not who is slow.
    let both = all(&with(0.5, 0.5)).iter().filter(|t| t.slow && t.leave_after.is_some()).count();
    assert!((180..=320).contains(&both), "{both}");
}

#[test]
fn a_conversation_keeps_its_key() {
    let keys = Keys::of_options(&["a=s:1", "b=t:1"].map(Secret::new)).unwrap();
    let workload = Workload { keys, ..of(Source::Listed(vec![turns(&["a", "b", "c"])])) };
    let picked: Vec<usize> = jobs(&workload, 0, Some(300)).map(|job| job.key).collect();
    assert_eq!(picked.len(), 100);
    assert!(picked.contains(&0) && picked.contains(&1));
}
