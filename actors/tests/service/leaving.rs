//! Clients that leave free everything they had, at whatever moment they leave.

use crate::house::{Watched, agrees, ask, empty, greedy, options, patiently, service, shape, text, whole};
use actors::{Event, Home, Opener, Params, Service};
use futures_util::future::join_all;

/// As many tokens as there is room for.
fn endless() -> Params {
    Params { ignore_eos: true, max_tokens: None, ..greedy(1) }
}

/// Reads `events` events, at most, and leaves.
async fn leaves_after(service: &Service, prompt: String, events: usize) {
    let mut answer = service.ask(ask(&prompt, endless()));
    for _ in 0..events {
        let event = patiently(answer.next()).await;
        assert!(matches!(event, Some(Event::Began { .. } | Event::Said { .. })), "{event:?}");
    }
}

#[actix::test]
async fn two_hundred_who_leave_leave_nothing_behind() {
    for depth in [1, 2] {
        let service = service(512, options(depth));
        let before = service.stats().kv;
        let leaving = (0..200).map(|i| leaves_after(&service, format!("{i} leaves {}", "soon ".repeat(i % 60)), i % 5));
        join_all(leaving).await;
        empty(&service).await;
        assert_eq!(service.stats().kv.budget_bytes, before.budget_bytes);
        let left = service.metrics().unwrap().text();
        let aborted: u64 = left
            .lines()
            .filter(|l| l.starts_with("vllm:request_success_total") && l.contains("\"abort\""))
            .map(|l| l.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(aborted, 200, "{left}");
    }
}

#[actix::test]
async fn those_who_stay_are_not_disturbed_by_a_storm_of_cancels() {
    let service = service(64, options(2));
    let params = Params { ignore_eos: true, ..greedy(150) };
    let staying: Vec<String> = (0..6).map(|i| format!("stays {i}")).collect();
    let stay = join_all(staying.iter().map(|p| whole(service.ask(ask(p, params.clone())))));
    let storm = async {
        for round in 0..10 {
            join_all((0..30).map(|i| leaves_after(&service, format!("{round} {i}"), (round + i) % 3))).await;
        }
    };
    // The pool holds 2048 tokens: every leaver that runs pushes the others about.
    let (stayed, ()) = futures_util::future::join(stay, storm).await;
    for (prompt, got) in staying.iter().zip(stayed) {
        agrees(prompt, &params, &got.unwrap());
    }
    empty(&service).await;
}

#[actix::test]
async fn a_row_is_freed_within_the_step_that_runs() {
    // Each step waits for leave to end, so that the test decides what happens while one is running.
    let (let_go, wait) = crossbeam::channel::unbounded::<()>();
    let opener: Opener = Box::new(move |_| {
        let wait = wait.clone();
        Ok(Box::new(Watched::new(shape(64)).on_done(move |_| wait.recv().unwrap())))
    });
    let service = actors::start(Home::Thread(opener), options(1), text()).unwrap();
    let mut answer = service.ask(ask("leaves in a step", endless()));
    assert!(matches!(patiently(answer.next()).await, Some(Event::Began { .. })));
    let mut stats = service.watch();
    let launched = patiently(stats.wait_for(|s| s.steps_in_flight == 1 && s.kv.rows_bytes > 0)).await.unwrap().steps;
    drop(answer);
    patiently(stats.wait_for(|s| s.running == 0)).await.unwrap();
    let_go.send(()).unwrap();
    empty(&service).await;
    assert_eq!(service.stats().steps, launched + 1, "no further step was needed");
}
