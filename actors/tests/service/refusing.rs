//! What is not answered says why, and at once.

use crate::house::{Watched, ask, empty, greedy, options, patiently, service, shape, text, whole};
use actors::{Answer, Ask, Event, Failure, Form, Home, Key, Opener, Options, Params, Prompt, Service};
use models::engine::EngineError;
use std::time::Duration;

/// A service whose steps end only when the sender says so, or when it is dropped.
fn held(options: Options) -> (Service, crossbeam::channel::Sender<()>) {
    let (let_go, wait) = crossbeam::channel::unbounded::<()>();
    let opener: Opener = Box::new(move |_| {
        let wait = wait.clone();
        // An error means that the sender is gone: every step may end now.
        Ok(Box::new(Watched::new(shape(64)).on_done(move |_| {
            wait.recv().ok();
        })))
    });
    (actors::start(Home::Thread(opener), options, text()).unwrap(), let_go)
}

async fn began(service: &Service, prompt: &str) -> Answer {
    let mut answer = service.ask(ask(prompt, greedy(3)));
    let first = patiently(answer.next()).await;
    assert!(matches!(first, Some(Event::Began { .. })), "{first:?}");
    answer
}

#[actix::test]
async fn requests_that_can_never_be_answered_name_their_field() {
    let service = service(4, options(2));
    let ids =
        |ids: Vec<u32>, params| Ask { id: "x".into(), prompt: Prompt::Ids(ids), params, key: Key::default(), answer: "answer".into(), form: Form::default() };
    let long = "x".repeat(5000);
    let table = [
        (ask("", greedy(1)), "prompt", "empty_prompt"),
        (ids(vec![1, 258], greedy(1)), "prompt", "invalid_token"),
        (ask("x", greedy(0)), "max_tokens", "invalid_value"),
        (ask("x", greedy(4096)), "max_tokens", "context_length_exceeded"),
        (ask("x", greedy(128)), "max_tokens", "kv_budget_exceeded"),
        (ask(&long, greedy(1)), "prompt", "context_length_exceeded"),
        (ask("x", Params { min_tokens: 9, ..greedy(8) }), "min_tokens", "invalid_value"),
    ];
    for (ask, param, code) in table {
        let failed = whole(service.ask(ask)).await;
        let Err(Failure::Invalid { param: p, code: c, message }) = failed else { panic!("{failed:?}") };
        assert_eq!((p, c), (param, code), "{message}");
    }
    assert!(whole(service.ask(ask("x", Params { ignore_eos: true, ..greedy(127) }))).await.is_ok());
    empty(&service).await;
    let page = service.metrics().unwrap().text();
    for (reason, count) in [("invalid", 6), ("never_fits", 1)] {
        let line = format!("coxswain:admissions_refused_total{{model_name=\"synthetic\",reason=\"{reason}\"}} {count}");
        assert!(page.contains(&line), "{line}\n{page}");
    }
}

#[actix::test]
async fn a_full_queue_is_busy() {
    let (service, let_go) = held(Options { batch: 1, queue: 1, ..options(1) });
    let first = began(&service, "runs").await;
    let second = began(&service, "waits").await;
    let third = whole(service.ask(ask("too many", greedy(3)))).await;
    assert!(matches!(third, Err(Failure::Busy { retry_after_s: 1.., .. })), "{third:?}");
    assert_eq!(service.requests(), 2);
    patiently(service.watch().wait_for(|s| (s.running, s.waiting) == (1, 1))).await.unwrap();
    drop(second);
    drop(let_go);
    patiently(async {
        while service.requests() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    began(&service, "fits now").await;
    drop(first);
    empty(&service).await;
}

#[actix::test]
async fn a_drain_finishes_what_is_here_and_takes_nothing_new() {
    let (service, let_go) = held(options(2));
    let mut answer = began(&service, "runs").await;
    let drained = {
        let service = service.clone();
        actix::spawn(async move { service.drain(Duration::from_secs(50)).await })
    };
    let mut stats = service.watch();
    patiently(stats.wait_for(|s| s.draining)).await.unwrap();
    assert!(matches!(service.ready(), Err(Failure::Unavailable { .. })));
    let late = whole(service.ask(ask("late", greedy(3)))).await;
    assert!(matches!(late, Err(Failure::Unavailable { .. })), "{late:?}");
    drop(let_go);
    let mut last = None;
    while let Some(event) = patiently(answer.next()).await {
        last = Some(event);
    }
    assert!(matches!(last, Some(Event::Done { .. })), "{last:?}");
    assert_eq!(patiently(drained).await.unwrap().cut, 0);
}

#[actix::test]
async fn a_drain_that_takes_too_long_cuts_and_says_so() {
    let (service, _let_go) = held(options(2));
    let mut first = began(&service, "runs").await;
    let mut second = began(&service, "runs too").await;
    assert_eq!(patiently(service.drain(Duration::from_millis(1))).await.cut, 2);
    for answer in [&mut first, &mut second] {
        let last = patiently(answer.next()).await;
        assert!(matches!(last, Some(Event::Failed(Failure::Unavailable { .. }))), "{last:?}");
    }
}

#[actix::test]
async fn a_model_that_does_not_load_is_said_as_it_is() {
    let error = EngineError::Load { file: "weights".into(), reason: "is missing".into() };
    let said = error.clone();
    let opener: Opener = Box::new(move |_| Err(said.clone()));
    assert_eq!(actors::start(Home::Thread(opener), Options::default(), text()).err(), Some(error));
    let opener: Opener = Box::new(|_| panic!("no disk"));
    let failed = actors::start(Home::Thread(opener), Options::default(), text()).err().unwrap();
    assert!(failed.to_string().contains("no disk"), "{failed}");
}
