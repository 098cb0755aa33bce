//! README.md, the registry and the exposition text must tell the same story.

use crate::{DisconnectPhase, FinishReason, Invariant, KeySeries, KvBytes, Metrics, MlxMemory, Refusal, RequestDone, StepPhase, StepShape, WorkerCause};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const CONTEXT_TOKENS: u32 = 4096;

#[derive(Debug, Default, PartialEq)]
struct Series {
    kind: String,
    labels: BTreeSet<String>,
    /// Without `+Inf`.
    bounds: Vec<f64>,
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|n| n.parse().unwrap()).collect()
}

/// The page's table.
fn page() -> BTreeMap<String, Series> {
    let text = include_str!("../README.md");
    let named = |letter: &str| {
        let at = text.find(&format!("{letter} = ")).unwrap() + letter.len() + 3;
        numbers(text[at..].split(['\n', '|']).next().unwrap().trim_end().split(". Of").next().unwrap().trim_end_matches('.'))
    };
    let mut page = BTreeMap::new();
    for line in text.lines().filter(|l| l.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let bounds = match cells[4] {
            "C" => vec![1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0],
            letter @ ("R" | "S" | "T") => named(letter),
            plain => numbers(plain),
        };
        let labels = cells[3].split_whitespace().map(str::to_owned).collect();
        let series = Series { kind: cells[2].to_owned(), labels, bounds };
        assert!(page.insert(cells[1].trim_matches('`').to_owned(), series).is_none(), "{line} twice");
    }
    page
}

/// Labels of a sample line, `le` among them.
fn labels(sample: &str) -> BTreeMap<String, String> {
    let inside = sample.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(inside, _)| inside);
    inside
        .split("\",")
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once("=\"").unwrap())
        .map(|(k, v)| (k.to_owned(), v.trim_end_matches('"').to_owned()))
        .collect()
}

/// What the exposition text declares and shows.
fn exposed(text: &str) -> BTreeMap<String, Series> {
    let mut out: BTreeMap<String, Series> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (family, kind) = declared.split_once(' ').unwrap();
            name = family.to_owned();
            out.insert(name.clone(), Series { kind: kind.to_owned(), ..Series::default() });
        } else if !line.starts_with('#') {
            let series = out.get_mut(&name).unwrap();
            let mut labels = labels(line);
            assert_eq!(labels.remove("model_name").as_deref(), Some("tiny"), "{line}");
            if let Some(bound) = labels.remove("le")
                && bound != "+Inf"
                && !series.bounds.contains(&bound.parse().unwrap())
            {
                series.bounds.push(bound.parse().unwrap());
            }
            series.labels.extend(labels.into_keys());
        }
    }
    out
}

fn metrics() -> Metrics {
    let metrics = Metrics::new("tiny", CONTEXT_TOKENS);
    metrics.set_cache_config(32, 512, "float32");
    metrics.set_loaded("tiny", "float32", "l1", "cpu");
    metrics.key("team");
    metrics
}

#[test]
fn the_page_lists_what_the_registry_has() {
    let (page, exposed) = (page(), exposed(&metrics().text()));
    assert_eq!(page.keys().collect::<Vec<_>>(), exposed.keys().collect::<Vec<_>>());
    for (name, series) in &page {
        assert_eq!(series, &exposed[name], "{name}");
    }
}

#[test]
fn a_dashboard_finds_bounded_labels_before_the_first_event() {
    let text = metrics().text();
    for (family, label, values) in [
        ("vllm:request_success_total", "finished_reason", FinishReason::values()),
        ("coxswain:step_seconds_count", "phase", StepPhase::values()),
        ("coxswain:admissions_refused_total", "reason", Refusal::values()),
        ("coxswain:disconnects_total", "phase", DisconnectPhase::values()),
        ("coxswain:worker_restarts_total", "cause", WorkerCause::values()),
        ("coxswain:invariant_violations_total", "id", Invariant::values()),
    ] {
        for value in values {
            let found = text.lines().any(|l| l.starts_with(&format!("{family}{{")) && l.contains(&format!("{label}=\"{value}\"")) && l.ends_with(" 0"));
            assert!(found, "{family} {label}={value}\n{text}");
        }
    }
}

/// An event moves the series of `expect`, and no other.
fn check(event: impl Fn(&Metrics), expect: &[&str]) {
    let metrics = Metrics::new("tiny", CONTEXT_TOKENS);
    event(&metrics);
    let text = metrics.text();
    let samples = text.lines().filter(|l| !l.starts_with('#') && !l.ends_with(" 0"));
    // A histogram's sum tells what was observed; its buckets and count move with it.
    let moved = samples.filter(|l| !l.contains("_bucket{") && !l.contains("_count{")).map(plain);
    let expect: BTreeSet<String> = expect.iter().map(|&l| l.to_owned()).collect();
    assert_eq!(moved.collect::<BTreeSet<_>>(), expect);
}

#[test]
fn events_of_the_service_move_their_series() {
    check(|m| m.set_rows(3, 4), &["vllm:num_requests_running 3", "vllm:num_requests_waiting 4"]);
    check(|m| m.preempted(), &["vllm:num_preemptions_total 1"]);
    check(|m| m.refused(Refusal::QueueFull), &["coxswain:admissions_refused_total{reason=queue_full} 1"]);
    check(|m| m.worker_lost(WorkerCause::Hang), &["coxswain:worker_restarts_total{cause=hang} 1"]);
    check(|m| m.recovered(), &["coxswain:recovered_rows_total 1"]);
    check(|m| m.recomputed(7), &["coxswain:recomputed_tokens_total 7"]);
    check(|m| m.disconnected(DisconnectPhase::Prefill), &["coxswain:disconnects_total{phase=prefill} 1"]);
    check(|m| m.invariant_violated(Invariant::S8), &["coxswain:invariant_violations_total{id=S8} 1"]);
}

#[test]
fn events_of_a_key_move_its_series() {
    let key = |event: fn(&KeySeries)| move |m: &Metrics| event(&m.key("team"));
    check(key(|k| k.admitted(Duration::from_millis(500))), &["coxswain:queue_wait_seconds_sum{key=team} 0.5"]);
    check(key(|k| k.prefilled(70)), &["coxswain:key_tokens_total{key=team,kind=prompt} 70"]);
    check(key(|k| k.token()), &["coxswain:key_tokens_total{key=team,kind=output} 1"]);
    check(key(|k| k.set_rows(2, 3)), &["coxswain:key_rows{key=team,state=running} 2", "coxswain:key_rows{key=team,state=waiting} 3"]);
}

#[test]
fn events_of_memory_move_their_series() {
    check(
        |m| m.set_kv(KvBytes { rows: 30, prefix: 10, scratch: 5, free: 80 }, 125),
        &[
            "vllm:kv_cache_usage_perc 0.25",
            "coxswain:kv_bytes{holder=rows} 30",
            "coxswain:kv_bytes{holder=prefix} 10",
            "coxswain:kv_bytes{holder=scratch} 5",
            "coxswain:kv_bytes{holder=free} 80",
            "coxswain:kv_budget_bytes 125",
        ],
    );
    check(|m| m.set_kv(KvBytes::default(), 0), &[]);
    check(
        |m| m.set_mlx_memory(MlxMemory { active: 1, cache: 2, peak: 3 }),
        &["coxswain:mlx_memory_bytes{kind=active} 1", "coxswain:mlx_memory_bytes{kind=cache} 2", "coxswain:mlx_memory_bytes{kind=peak} 3"],
    );
    check(|m| m.prefix_lookup(70, 64), &["vllm:prefix_cache_queries_total 70", "vllm:prefix_cache_hits_total 64"]);
}

#[test]
fn events_of_a_step_move_their_series() {
    check(
        |m| m.step(StepShape { rows: 2, prefill_tokens: 31, decode_tokens: 1 }),
        &[
            "coxswain:batch_rows_sum 2",
            "coxswain:step_tokens_sum{kind=prefill} 31",
            "coxswain:step_tokens_sum{kind=decode} 1",
            "vllm:iteration_tokens_total_sum 32",
        ],
    );
    check(|m| m.step_phase(StepPhase::Reply, Duration::from_millis(125)), &["coxswain:step_seconds_sum{phase=reply} 0.125"]);
    check(|m| m.prefilled(70, 64), &["vllm:prompt_tokens_total 70", "vllm:prompt_tokens_cached_total 64"]);
    check(|m| m.first_token(Duration::from_millis(500)), &["vllm:generation_tokens_total 1", "vllm:time_to_first_token_seconds_sum 0.5"]);
    check(|m| m.next_token(Duration::from_millis(125)), &["vllm:generation_tokens_total 1", "vllm:inter_token_latency_seconds_sum 0.125"]);
}

#[test]
fn a_request_is_counted_by_how_far_it_came() {
    let done = RequestDone {
        reason: FinishReason::Length,
        prompt_tokens: 7,
        generation_tokens: 5,
        longest_answer_tokens: 5,
        max_tokens: Some(64),
        n: Some(1),
        queue: Some(Duration::from_millis(500)),
        prefill: Some(Duration::from_millis(250)),
        decode: Some(Duration::from_secs(1)),
        e2e: Duration::from_millis(1750),
    };
    check(
        |m| m.finished(&done),
        &[
            "vllm:request_success_total{finished_reason=length} 1",
            "vllm:e2e_request_latency_seconds_sum 1.75",
            "vllm:request_queue_time_seconds_sum 0.5",
            "vllm:request_prefill_time_seconds_sum 0.25",
            "vllm:request_decode_time_seconds_sum 1",
            "vllm:request_inference_time_seconds_sum 1.25",
            "vllm:request_time_per_output_token_seconds_sum 0.25",
            "vllm:request_prompt_tokens_sum 7",
            "vllm:request_generation_tokens_sum 5",
            "vllm:request_max_num_generation_tokens_sum 5",
            "vllm:request_params_n_sum 1",
            "vllm:request_params_max_tokens_sum 64",
        ],
    );
    // It left while it waited.
    let early = RequestDone {
        reason: FinishReason::Abort,
        generation_tokens: 0,
        longest_answer_tokens: 0,
        max_tokens: None,
        queue: None,
        prefill: None,
        decode: None,
        ..done
    };
    check(
        |m| m.finished(&early),
        &[
            "vllm:request_success_total{finished_reason=abort} 1",
            "vllm:e2e_request_latency_seconds_sum 1.75",
            "vllm:request_prompt_tokens_sum 7",
            "vllm:request_params_n_sum 1",
        ],
    );
}

/// A sample without `model_name` and quotes.
fn plain(sample: &str) -> String {
    let name = sample.split('{').next().unwrap();
    let value = sample.rsplit(' ').next().unwrap();
    let labels: Vec<String> = labels(sample).into_iter().filter(|(k, _)| k != "model_name").map(|(k, v)| format!("{k}={v}")).collect();
    if labels.is_empty() { format!("{name} {value}") } else { format!("{name}{{{}}} {value}", labels.join(",")) }
}

#[test]
fn what_is_loaded_is_said_once() {
    let metrics = metrics();
    metrics.set_loaded("tiny", "bfloat16", "l3", "cpu");
    let text = metrics.text();
    let said: Vec<&str> = text.lines().filter(|l| l.starts_with("coxswain:loaded_info{")).collect();
    assert_eq!(said, [r#"coxswain:loaded_info{device="cpu",dtype="bfloat16",model="tiny",model_name="tiny",tier="l3"} 1"#]);
}
