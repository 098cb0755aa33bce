//! The model is lost: rows resume where they were, or every client hears why not.

use crate::house::{Watched, agrees, ask, empty, greedy, options, patiently, service, shape, text, whole};
use actors::{Event, Failure, Home, Opener, Options, Params, Service};
use futures_util::future::join_all;
use kv::RowFault;
use models::engine::EngineError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How an engine is lost.
#[derive(Debug, Clone, Copy)]
enum Death {
    Fails,
    Panics,
}

/// A service whose engines die at the 20th step of their life, `deaths` times in all.
fn dying(death: Death, deaths: u32, options: Options) -> Service {
    let died = Arc::new(AtomicU32::new(0));
    let opener: Opener = Box::new(move |_| {
        let died = Arc::clone(&died);
        let mut steps = 0;
        let hook = move |_: &kv::Step| {
            steps += 1;
            if steps < 20 || died.load(Ordering::SeqCst) == deaths {
                return Ok(());
            }
            died.fetch_add(1, Ordering::SeqCst);
            match death {
                Death::Fails => Err(EngineError::Step("told to".into())),
                Death::Panics => panic!("told to"),
            }
        };
        Ok(Box::new(Watched::new(shape(64)).on_launch(hook)))
    });
    actors::start(Home::Thread(opener), options, text()).unwrap()
}

#[actix::test]
async fn rows_resume_with_the_same_tokens_after_the_model_was_lost() {
    for (death, depth) in [(Death::Fails, 1), (Death::Fails, 2), (Death::Panics, 2)] {
        let service = dying(death, 2, options(depth));
        let params = Params { ignore_eos: true, temperature: 0.7, seed: Some(3), ..greedy(80) };
        let prompts: Vec<String> = (0..20).map(|i| format!("{i} will be interrupted")).collect();
        let got = join_all(prompts.iter().map(|p| whole(service.ask(ask(p, params.clone()))))).await;
        let mut restarts = 0;
        for (prompt, got) in prompts.iter().zip(got) {
            let got = got.unwrap();
            agrees(prompt, &params, &got);
            restarts += got.timings.restarts;
        }
        assert!(restarts > 0, "{death:?} {depth}");
        assert_eq!(service.stats().restarts, 2);
        assert_eq!(service.ready(), Ok(()));
        empty(&service).await;
    }
}

#[actix::test]
async fn a_model_that_keeps_dying_is_unavailable_with_its_reason() {
    let service = dying(Death::Fails, u32::MAX, options(2));
    let params = Params { ignore_eos: true, ..greedy(500) };
    let asked = (0..5).map(|i| whole(service.ask(ask(&format!("{i}"), params.clone()))));
    for got in join_all(asked).await {
        let Err(Failure::Unavailable { message, .. }) = got else { panic!("{got:?}") };
        assert!(message.contains("told to"), "{message}");
    }
    assert!(matches!(service.ready(), Err(Failure::Unavailable { .. })));
    let late = whole(service.ask(ask("late", greedy(1)))).await;
    assert!(matches!(late, Err(Failure::Unavailable { .. })), "{late:?}");
    assert!(service.stats().lost.unwrap().contains("3 times"));
}

#[actix::test]
async fn a_step_over_its_deadline_is_a_hung_model() {
    let (let_go, wait) = crossbeam::channel::unbounded::<()>();
    // Disconnected once the engine is dropped, for it alone holds the sending end then.
    let (alive, engine_gone) = crossbeam::channel::unbounded::<()>();
    let alive = std::sync::Mutex::new(Some(alive));
    let opener: Opener = Box::new(move |_| {
        let (wait, alive) = (wait.clone(), alive.lock().unwrap().take());
        Ok(Box::new(Watched::new(shape(64)).on_done(move |_| {
            let _held = &alive;
            wait.recv().ok();
        })))
    });
    let options = Options { step_deadline: Duration::from_millis(50), ..options(2) };
    let service = actors::start(Home::Thread(opener), options, text()).unwrap();
    let got = whole(service.ask(ask("waits", greedy(5)))).await;
    let Err(Failure::Unavailable { message, .. }) = got else { panic!("{got:?}") };
    assert!(message.contains("step 1"), "{message}");
    assert!(matches!(service.ready(), Err(Failure::Unavailable { .. })));
    // The hung thread wakes up: what it has to say belongs to a life that is over.
    drop(let_go);
    assert_eq!(engine_gone.recv_timeout(Duration::from_secs(20)), Err(crossbeam::channel::RecvTimeoutError::Disconnected));
    patiently(service.drain(Duration::from_secs(20))).await;
    patiently(service.watch().wait_for(|s| s.draining)).await.unwrap();
    assert_eq!(service.stats().steps, 0);
}

#[actix::test]
async fn a_faulted_row_ends_alone() {
    let opener: Opener = Box::new(|_| {
        let spoil = |done: &mut kv::StepDone| {
            for result in done.results.iter_mut().filter(|r| r.seq.0 == 3) {
                result.token = Err(RowFault::NotFinite);
            }
        };
        Ok(Box::new(Watched::new(shape(256)).on_done(spoil)))
    });
    let service = actors::start(Home::Thread(opener), options(2), text()).unwrap();
    let params = Params { ignore_eos: true, ..greedy(40) };
    let prompts: Vec<String> = (1..=6).map(|i| format!("row {i}")).collect();
    let got = join_all(prompts.iter().map(|p| whole(service.ask(ask(p, params.clone()))))).await;
    for (i, (prompt, got)) in prompts.iter().zip(got).enumerate() {
        match got {
            Ok(got) => agrees(prompt, &params, &got),
            Err(failure) => assert!(i == 2 && matches!(failure, Failure::Fault { .. }), "{i} {failure:?}"),
        }
    }
    empty(&service).await;
}

#[actix::test]
async fn the_last_handle_takes_the_actors_with_it() {
    let service = service(64, options(2));
    let mut answer = service.ask(ask("left alone", Params { ignore_eos: true, ..greedy(2000) }));
    assert!(matches!(patiently(answer.next()).await, Some(Event::Began { .. })));
    drop(service);
    let mut last = None;
    while let Some(event) = patiently(answer.next()).await {
        last = Some(event);
    }
    assert!(matches!(last, Some(Event::Failed(Failure::Unavailable { .. }) | Event::Done { .. })), "{last:?}");
}
