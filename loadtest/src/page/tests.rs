//! The page is well formed, escapes what it is given, and needs nothing else.

use super::*;
use crate::chat::Usage;
use crate::load::arrivals::{Arrivals, Rate};
use crate::load::keys::{Keys, Secret};
use crate::load::workload::{Habits, Shape};
use crate::outcome::{End, Failure, Outcome};
use crate::report::figures::Reading;
use crate::report::{Pattern, Prompts, Setting, VERSION};
use std::time::Duration;

const NASTY: &str = "<script>alert('x')</script>&\"\u{1}";

fn outcome(index: usize, end: End) -> Outcome {
    let at = |ms: u64| Duration::from_millis(1000 + 100 * index as u64 + ms);
    Outcome {
        index,
        key: 0,
        slow: index == 1,
        delayed: false,
        leaves: false,
        intended: at(0),
        sent: at(if index == 2 { 40 } else { 0 }),
        first: end_has_text(&end).then(|| at(200)),
        ended: at(500),
        gaps_us: vec![100_000; if end_has_text(&end) { 3 } else { 0 }],
        pieces: if end_has_text(&end) { 4 } else { 0 },
        text: String::new(),
        usage: Some(Usage { prompt_tokens: Some(3), completion_tokens: Some(4), prompt_tokens_details: None }),
        end,
    }
}

fn end_has_text(end: &End) -> bool {
    matches!(end, End::Done { .. } | End::Left)
}

fn ends() -> Vec<End> {
    let done = || End::Done { finish_reason: Some(NASTY.into()) };
    let refused = End::Refused { code: 429, explanation: NASTY.into(), retry_after: Duration::from_secs(1) };
    vec![done(), done(), done(), End::Left, refused, End::Failed(Failure::Cut(NASTY.into()))]
}

fn report(rates: &[Option<f64>], outcomes: &[Outcome]) -> Report {
    let keys = Keys::of_options(&["ann=hunter2:1", "bob=hunter3:1"].map(Secret::new)).unwrap();
    let slo = "ttft=1s".parse().unwrap();
    let run = |rate: &Option<f64>| {
        let rate = rate.map(|per_s| Rate::Steady { per_s });
        let arrivals_end = rate.map(|_| Duration::from_millis(1600));
        Run::new(outcomes.to_vec(), &Reading { rate, keys: keys.all(), slo: Some(&slo), warmup_requests: 0, warmup: Duration::ZERO, arrivals_end })
    };
    let pattern = match rates[0] {
        None => Pattern::Closed { concurrency: 2 },
        Some(_) => Pattern::Open { arrivals: Arrivals::Gamma { burstiness: 0.5 }, in_flight_max: 10 },
    };
    let setting = Setting {
        url: "http://box:1".into(),
        model: NASTY.into(),
        pattern,
        prompts: Prompts::File { file: NASTY.into() },
        requests: Some(6),
        duration_s: None,
        warmup: 0,
        warmup_s: None,
        max_tokens: 8,
        shape: Shape::default(),
        temperature: 0.0,
        seed: 0,
        ignore_eos: false,
        habits: Habits::default(),
        slow_reader_bytes_per_s: 1.0,
        timeout_s: 1,
        keys: keys.all().to_vec(),
        slo: Some(slo),
    };
    Report { version: VERSION, setting, runs: rates.iter().map(run).collect() }
}

fn outcomes() -> Vec<Outcome> {
    ends().into_iter().enumerate().map(|(i, end)| outcome(i, end)).collect()
}

/// The page as a tree of XML: whatever is not closed or not escaped fails here.
fn with_tree(page: &str, check: impl FnOnce(&roxmltree::Document<'_>)) {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    let tree = roxmltree::Document::parse_with_options(page, options).unwrap_or_else(|e| panic!("{e}:\n{page}"));
    check(&tree);
}

fn count(tree: &roxmltree::Document<'_>, name: &str, class: &str) -> usize {
    tree.descendants().filter(|n| n.tag_name().name() == name && n.attribute("class").is_some_and(|c| c.split(' ').any(|c| c == class))).count()
}

#[test]
fn a_page_is_well_formed_and_has_its_plots() {
    for (rates, plots) in [(vec![None], 1), (vec![Some(2.0)], 1), (vec![Some(1.0), Some(2.0), Some(4.0)], 3 + 3)] {
        let report = report(&rates, &outcomes());
        with_tree(&html(&report), |tree| {
            assert_eq!(count(tree, "svg", "plot"), plots, "{rates:?}");
            assert_eq!(count(tree, "svg", "timeline"), rates.len());
            let timeline = tree.descendants().find(|n| n.attribute("class") == Some("timeline")).unwrap();
            assert_eq!(timeline.descendants().filter(|n| n.tag_name().name() == "g").count(), 6, "a lane a request");
        });
    }
}

#[test]
fn texts_are_escaped_and_nothing_comes_from_elsewhere() {
    let page = html(&report(&[Some(1.0), Some(2.0)], &outcomes()));
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"));
    with_tree(&page, |tree| {
        let names: std::collections::BTreeSet<&str> = tree.descendants().map(|n| n.tag_name().name()).collect();
        for foreign in ["script", "link", "img", "iframe", "image", "use", "a"] {
            assert!(!names.contains(foreign), "{foreign}");
        }
        for attribute in tree.descendants().flat_map(|n| n.attributes()) {
            assert!(!["src", "href", "style"].contains(&attribute.name()) && !attribute.name().starts_with("on"), "{}", attribute.name());
        }
    });
    assert!(!page.contains("@import") && !page.contains("url("));
    assert!(page.contains("prefers-color-scheme:dark") && page.contains("name=\"color-scheme\""));
}

#[test]
fn secrets_are_in_no_output() {
    let report = report(&[None], &outcomes());
    for text in [html(&report), report.json(), report.to_string(), format!("{report:?}")] {
        assert!(!text.contains("hunter"), "{text}");
        assert!(text.contains("ann"), "{text}");
    }
}

#[test]
fn a_picture_of_a_sweep_stands_alone() {
    let picture = picture(&report(&[Some(1.0), Some(2.0)], &outcomes()));
    with_tree(&picture, |tree| {
        assert_eq!(count(tree, "svg", "plot"), 2);
        // Two rates: answered, refused and good; and three times.
        assert_eq!(tree.descendants().filter(|n| n.tag_name().name() == "circle").count(), 2 * (3 + 3));
    });
    assert!(picture.len() < 20_000, "{} bytes", picture.len());
}

#[test]
fn many_requests_are_thinned_out() {
    let outcomes: Vec<Outcome> = (0..1700).map(|i| outcome(i, End::Done { finish_reason: None })).collect();
    let page = html(&report(&[None], &outcomes));
    with_tree(&page, |tree| {
        let lanes = tree.descendants().filter(|n| n.tag_name().name() == "g").count();
        assert!((timeline::LANES_MAX / 2..=timeline::LANES_MAX).contains(&lanes), "{lanes}");
    });
    assert!(page.contains("one in 4 requests"));
}

#[test]
fn a_report_without_an_answer_is_a_page_too() {
    with_tree(&html(&report(&[None], &[])), |_| ());
    with_tree(&html(&report(&[Some(1.0), Some(2.0)], &[])), |_| ());
    let failed = [outcome(0, End::Failed(Failure::Connect("reset".into())))];
    with_tree(&html(&report(&[Some(1.0)], &failed)), |_| ());
}

#[test]
fn a_report_is_in_order_unless_something_failed_or_all_was_refused() {
    let of = |ends: Vec<End>| report(&[None], &ends.into_iter().enumerate().map(|(i, end)| outcome(i, end)).collect::<Vec<_>>()).ok();
    let done = || End::Done { finish_reason: None };
    let refused = || End::Refused { code: 503, explanation: String::new(), retry_after: Duration::ZERO };
    assert!(of(vec![done(), refused()]));
    assert!(of(vec![End::Left]));
    assert!(!of(vec![refused(), refused()]));
    assert!(!of(vec![done(), End::Failed(Failure::Connect(String::new()))]));
}
