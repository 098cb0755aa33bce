//! Every way in which a worker can be lost, and what the service says of it.

use crate::house::{agrees, ask, empty, greedy, options, patiently, text, whole};
use crate::synthetic::{Job, Noise, Nonsense, Wrong};
use actors::{Event, Failure, Options, Params, Service, WorkerState, WorkerStats};
use futures_util::future::join_all;
use models::engine::EngineError;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open};
use std::path::Path;
use std::time::Duration;
use tokio::sync::oneshot;

const BLOCKS: u32 = 64;

/// Runs what is async on an arbiter of its own.
pub(crate) fn on_arbiter(test: impl Future<Output = ()>) {
    actix::System::new().block_on(test);
}

fn job(wrong: Wrong, times: u64, dir: &Path) -> Job {
    Job { wrong, times, tally: dir.join("tally"), ..Job::good(BLOCKS) }
}

/// Twelve streams over a worker that goes wrong twice; all texts are the oracle's. Gives what is said of the worker then.
fn survived(wrong: Wrong) -> WorkerStats {
    let dir = tempfile::tempdir().unwrap();
    let mut worker = None;
    on_arbiter(async {
        let service = actors::start(job(wrong, 2, dir.path()).home(), options(2), text()).unwrap();
        let params = Params { ignore_eos: true, temperature: 0.7, seed: Some(3), ..greedy(60) };
        let prompts: Vec<String> = (0..12).map(|i| format!("{i} will be interrupted")).collect();
        let got = join_all(prompts.iter().map(|p| whole(service.ask(ask(p, params.clone()))))).await;
        for (prompt, got) in prompts.iter().zip(got) {
            agrees(prompt, &params, &got.unwrap_or_else(|failure| panic!("{wrong:?}: {failure:?}")));
        }
        empty(&service).await;
        let page = service.metrics().unwrap().text();
        assert!(page.contains("coxswain:recovered_rows_total{model_name=\"synthetic\"} 24"), "{wrong:?}: {page}");
        worker = Some(service.stats().worker);
    });
    worker.unwrap()
}

pub(crate) fn a_worker_that_makes_no_sense_is_replaced() {
    let noises = [Noise::Text, Noise::OtherVersion, Noise::HugeLength, Noise::NoMessage].map(|noise| Wrong::Writes(20, noise));
    let nonsense = [Nonsense::OtherStep, Nonsense::OtherRow, Nonsense::NoResults, Nonsense::TokenBeyondAll].map(|nonsense| Wrong::Answers(20, nonsense));
    for wrong in noises.into_iter().chain(nonsense) {
        let worker = survived(wrong);
        assert_eq!((worker.exits, worker.hangs, worker.ipc), (0, 0, 2), "{wrong:?}: {worker:?}");
    }
}

pub(crate) fn a_worker_that_fails_says_why() {
    for (wrong, why) in [(Wrong::Fails(20), "told to fail"), (Wrong::Panics(20), "told to panic"), (Wrong::Exits(20), "exit status: 7")] {
        let worker = survived(wrong);
        assert_eq!((worker.exits, worker.hangs, worker.ipc), (2, 0, 0), "{wrong:?}: {worker:?}");
        assert!(worker.last_loss.as_ref().is_some_and(|said| said.contains(why)), "{wrong:?}: {worker:?}");
    }
}

/// A service whose first opening is not waited for.
fn begin(job: &Job, options: Options) -> (Service, oneshot::Receiver<Result<(), EngineError>>) {
    let (to, opened) = oneshot::channel();
    (actors::begin(job.home(), options, text(), Box::new(move |outcome| to.send(outcome).unwrap())).unwrap(), opened)
}

async fn worker_is(service: &Service, state: WorkerState) -> WorkerStats {
    patiently(service.watch().wait_for(|stats| stats.worker.state == state)).await.unwrap().worker.clone()
}

fn unavailable<T: std::fmt::Debug>(got: Result<T, Failure>) -> String {
    let Err(Failure::Unavailable { message, retry_after_s }) = got else { panic!("{got:?}") };
    assert!(retry_after_s > 0);
    message
}

pub(crate) fn a_worker_that_dies_on_load_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    on_arbiter(async {
        let (service, opened) = begin(&job(Wrong::DiesOnLoad, 3, dir.path()), options(2));
        let said = unavailable(service.ready());
        assert!(said.contains("being loaded") || said.contains("3 times"), "{said}");
        let worker = worker_is(&service, WorkerState::Down).await;
        assert_eq!(worker.exits, 3);
        for said in [unavailable(service.ready()), unavailable(service.card()), unavailable(whole(service.ask(ask("early", greedy(1)))).await)] {
            assert!(said.contains("3 times") && said.contains("SIGABRT"), "{said}");
        }
        assert!(patiently(service.down()).await.contains("3 times"));
        // The fourth one lives.
        assert_eq!(patiently(opened).await.unwrap(), Ok(()));
        worker_is(&service, WorkerState::Ready).await;
        assert_eq!(service.ready(), Ok(()));
        agrees("late", &greedy(20), &whole(service.ask(ask("late", greedy(20)))).await.unwrap());
        let page = service.metrics().unwrap().text();
        assert!(page.contains("coxswain:worker_restarts_total{cause=\"exit\",model_name=\"synthetic\"} 3"), "{page}");
    });
}

pub(crate) fn too_many_deaths_refuse_until_the_model_is_back() {
    let dir = tempfile::tempdir().unwrap();
    on_arbiter(async {
        let service = actors::start(job(Wrong::Exits(20), 3, dir.path()).home(), options(2), text()).unwrap();
        let params = Params { ignore_eos: true, ..greedy(500) };
        // Rows that run, and rows that wait.
        let asked = (0..40).map(|i| whole(service.ask(ask(&format!("{i}"), params.clone()))));
        for got in join_all(asked).await {
            let said = unavailable(got);
            assert!(said.contains("3 times") && said.contains("exit status: 7"), "{said}");
        }
        assert!(unavailable(service.ready()).contains("3 times"));
        assert!(unavailable(whole(service.ask(ask("late", greedy(1)))).await).contains("3 times"));
        patiently(service.watch().wait_for(|stats| stats.lost.is_none() && !stats.opening)).await.unwrap();
        assert_eq!(service.ready(), Ok(()));
        agrees("later", &greedy(20), &whole(service.ask(ask("later", greedy(20)))).await.unwrap());
        empty(&service).await;
    });
}

pub(crate) fn a_load_that_hangs_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    on_arbiter(async {
        let options = Options { load_deadline: Duration::from_secs(1), ..options(2) };
        let (service, opened) = begin(&job(Wrong::HangsOnLoad, 1, dir.path()), options);
        assert_eq!(patiently(opened).await.unwrap(), Ok(()));
        let worker = service.stats().worker;
        assert!(worker.hangs >= 1 && worker.last_loss.as_ref().is_some_and(|said| said.contains("not been loaded within")), "{worker:?}");
    });
}

pub(crate) fn a_model_that_cannot_be_loaded_is_said_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let refused = actors::start(job(Wrong::Refuses, 9, dir.path()).home(), options(2), text()).err();
    assert_eq!(refused, Some(EngineError::Load { file: "weights".into(), reason: "are missing".into() }));
}

/// A connection ends when nobody holds its end any more; a process may have left that to another one.
pub(crate) fn a_death_is_seen_though_somebody_holds_the_connection() {
    on_arbiter(async {
        let service = actors::start(Job::good(BLOCKS).home(), options(2), text()).unwrap();
        let pid = Pid::from_raw(service.stats().worker.pid.unwrap().cast_signed()).unwrap();
        let held = pidfd_getfd(pidfd_open(pid, PidfdFlags::empty()).unwrap(), 0, PidfdGetfdFlags::empty()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        patiently(service.watch().wait_for(|stats| stats.worker.exits == 1 && stats.worker.state == WorkerState::Ready)).await.unwrap();
        agrees("goes on", &greedy(20), &whole(service.ask(ask("goes on", greedy(20)))).await.unwrap());
        drop(held);
    });
}

pub(crate) fn the_last_handle_takes_the_worker_with_it() {
    on_arbiter(async {
        let service = actors::start(Job::good(BLOCKS).home(), options(2), text()).unwrap();
        let pid = service.stats().worker.pid.unwrap();
        let mut answer = service.ask(ask("left alone", Params { ignore_eos: true, ..greedy(2000) }));
        assert!(matches!(patiently(answer.next()).await, Some(Event::Began { .. })));
        drop(service);
        while patiently(answer.next()).await.is_some() {}
        // Neither it nor its place in the system's table is left.
        let process = format!("/proc/{pid}");
        patiently(async {
            while Path::new(&process).exists() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    });
}
