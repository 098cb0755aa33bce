//! Outcomes by hand, and the figures that follow from them.

use super::*;
use crate::chat::Usage;
use crate::load::keys::{Keys, Secret};
use crate::outcome::Failure;
use crate::report::parts::Goodput;

fn seconds(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

/// Due at `due`, first text after one second, then a piece a second: `pieces` in all, ends with the last.
fn answered(index: usize, due: f64, pieces: u32) -> Outcome {
    Outcome {
        index,
        key: 0,
        slow: false,
        delayed: false,
        leaves: false,
        intended: seconds(due),
        sent: seconds(due),
        first: Some(seconds(due + 1.0)),
        ended: seconds(due + f64::from(pieces)),
        gaps_us: vec![1_000_000; pieces as usize - 1],
        pieces,
        text: String::new(),
        usage: Some(Usage { prompt_tokens: Some(10), completion_tokens: Some(2 * pieces), prompt_tokens_details: None }),
        end: End::Done { finish_reason: Some("length".into()) },
    }
}

fn without_text(index: usize, due: f64, end: End) -> Outcome {
    Outcome { first: None, gaps_us: Vec::new(), pieces: 0, usage: None, ended: seconds(due), end, ..answered(index, due, 1) }
}

fn refused() -> End {
    End::Refused { code: 429, explanation: "429 Too Many Requests: full".into(), retry_after: seconds(3.0) }
}

fn reading<'a>(keys: &'a Keys, slo: Option<&'a Slo>) -> Reading<'a> {
    Reading { rate: None, keys: keys.all(), slo, warmup_requests: 0, warmup: Duration::ZERO, arrivals_end: None }
}

fn nobody() -> Keys {
    Keys::of_options(&[]).unwrap()
}

#[test]
fn requests_are_done_left_refused_or_failed() {
    let outcomes = vec![
        answered(0, 0.0, 3),
        Outcome { end: End::Left, usage: None, ..answered(1, 0.0, 2) },
        without_text(2, 1.0, refused()),
        without_text(3, 1.0, End::Failed(Failure::Connect("reset".into()))),
    ];
    let run = Run::new(outcomes, &reading(&nobody(), None));
    assert_eq!((run.requests, run.done, run.left, run.refused, run.failed), (4, 1, 1, 1, 1));
    assert_eq!(run.errors["connect"], Errors { count: 1, example: "no connection: reset".into() });
    assert_eq!(run.refusals["status_429"], Errors { count: 1, example: "429 Too Many Requests: full (Retry-After 3 s)".into() });
    assert_eq!((run.output_tokens, run.output_tokens_from), (6 + 2, TokensFrom::Both));
    assert_eq!((run.wall_s, run.done_per_s), (3.0, 1.0 / 3.0));
    assert_eq!(run.ttft_ms.unwrap().count, 2);
    assert_eq!((run.e2e_ms.unwrap().max, run.itl_ms.unwrap().mean), (3000.0, 1000.0));
    // From the first text to the end two seconds, and five tokens after the first.
    assert_eq!(run.tpot_ms.unwrap().mean, 400.0);
    assert_eq!(run.rows.iter().map(|r| r.end).collect::<Vec<_>>(), ["done", "left", "refused", "failed"]);
}

#[test]
fn nothing_at_all_is_no_division_by_nothing() {
    let run = Run::new(Vec::new(), &Reading { arrivals_end: Some(Duration::ZERO), ..reading(&nobody(), Some(&Slo::default())) });
    assert_eq!((run.requests, run.wall_s, run.output_tokens_per_s, run.done_per_s), (0, 0.0, 0.0, 0.0));
    assert_eq!((run.ttft_ms, run.under_load), (None, None));
    assert!(serde_json::to_string(&run).unwrap().contains("\"per_s\":0.0"));
}

#[test]
fn latency_counts_from_when_a_request_was_due() {
    let late = Outcome { sent: seconds(5.0), first: Some(seconds(6.0)), ended: seconds(7.0), delayed: true, ..answered(0, 1.0, 2) };
    let run = Run::new(vec![late], &reading(&nobody(), None));
    assert_eq!((run.delayed, run.late_ms.unwrap().max), (1, 4000.0));
    assert_eq!((run.ttft_ms.unwrap().max, run.e2e_ms.unwrap().max), (5000.0, 6000.0));
}

#[test]
fn warm_up_is_left_out_by_number_and_by_time() {
    let outcomes: Vec<Outcome> = (0..10).map(|i| answered(i, i as f64, 2)).collect();
    let keys = nobody();
    let by_number = Run::new(outcomes.clone(), &Reading { warmup_requests: 4, ..reading(&keys, None) });
    let by_time = Run::new(outcomes, &Reading { warmup: seconds(4.0), ..reading(&keys, None) });
    assert_eq!(by_number, by_time);
    assert_eq!((by_time.requests, by_time.rows[0].index, by_time.wall_s), (6, 4, 7.0));
}

#[test]
fn rates_under_load_count_what_came_while_requests_arrived() {
    // One every second for ten seconds, each with 4 pieces (8 tokens) over 4 seconds; the first two seconds are warm-up.
    let outcomes: Vec<Outcome> = (0..10).map(|i| answered(i, i as f64, 4)).chain([without_text(10, 5.0, refused())]).collect();
    let keys = nobody();
    let run = Run::new(outcomes, &Reading { warmup: seconds(2.0), arrivals_end: Some(seconds(10.0)), ..reading(&keys, None) });
    let load = run.under_load.unwrap();
    assert_eq!((load.seconds, load.offered_per_s), (8.0, 9.0 / 8.0));
    // Those due at 0 to 5 end at 4 to 9.
    assert_eq!((load.done_per_s, load.refused_per_s), (6.0 / 8.0, 1.0 / 8.0));
    // From 2 to 10 there came 2, 3, then 4 pieces a second (one at 2 of the first two each, …), of 2 tokens each.
    let pieces: usize = (0..10).map(|i| (1..=4).filter(|p| (2..10).contains(&(i + p))).count()).sum();
    assert_eq!(load.output_tokens_per_s, 2.0 * pieces as f64 / 8.0);
}

#[test]
fn goodput_counts_those_that_ended_well_within_all_limits() {
    let slo: Slo = "ttft=1s,itl=1s,e2e=3s".parse().unwrap();
    let outcomes = vec![
        answered(0, 0.0, 3),
        answered(1, 0.0, 4),
        without_text(2, 0.0, refused()),
        Outcome { end: End::Left, ..answered(3, 0.0, 2) },
        Outcome { slow: true, ..answered(4, 0.0, 2) },
        Outcome { end: End::Failed(Failure::Cut("x".into())), ..answered(5, 0.0, 2) },
    ];
    let run = Run::new(outcomes, &reading(&nobody(), Some(&slo)));
    assert_eq!(run.goodput, Some(Goodput { good: 1, of: 4, per_s: 0.25 }));
    // A turn that was due after the last arrival is good, and says nothing of the rate that was kept up.
    let outcomes = vec![answered(0, 0.0, 2), answered(1, 2.0, 2), answered(2, 5.0, 2)];
    let run = Run::new(outcomes, &Reading { arrivals_end: Some(seconds(4.0)), ..reading(&nobody(), Some(&slo)) });
    assert_eq!(run.goodput, Some(Goodput { good: 3, of: 3, per_s: 2.0 / 4.0 }));
}

#[test]
fn slow_readers_have_a_line_of_their_own() {
    let outcomes = vec![answered(0, 0.0, 2), Outcome { slow: true, ..answered(1, 0.0, 100) }];
    let run = Run::new(outcomes, &reading(&nobody(), None));
    let slow = run.slow.unwrap();
    assert_eq!((slow.requests, slow.done, slow.e2e_ms.unwrap().max), (1, 1, 100_000.0));
    assert_eq!((run.done, run.e2e_ms.unwrap().count, run.e2e_ms.unwrap().max), (2, 1, 2000.0));
}

#[test]
fn each_key_with_a_name_has_its_figures() {
    let keys = Keys::of_options(&["ann=hunter2:3", "bob=hunter3:1"].map(Secret::new)).unwrap();
    let outcomes = vec![answered(0, 0.0, 2), Outcome { key: 1, ..answered(1, 0.0, 5) }, Outcome { key: 1, ..without_text(2, 0.0, refused()) }];
    let run = Run::new(outcomes, &reading(&keys, None));
    let lines: Vec<_> = run.keys.iter().map(|k| (k.name.as_str(), k.weight, k.requests, k.done, k.refused, k.output_tokens)).collect();
    assert_eq!(lines, [("ann", 3.0, 1, 1, 0, 4), ("bob", 1.0, 2, 1, 1, 10)]);
    assert_eq!(run.rows[1].key.as_deref(), Some("bob"));
    assert!(Run::new(vec![answered(0, 0.0, 2)], &reading(&nobody(), None)).keys.is_empty());
}
