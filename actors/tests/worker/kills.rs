//! A worker that is killed, or stopped, at moments that nobody chose.

use crate::deaths::on_arbiter;
use crate::house::{Whole, agrees, ask, empty, greedy, options, patiently, text, whole};
use crate::synthetic::Job;
use actors::{Finish, Options, Params, Service, WorkerState};
use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use std::cell::Cell;
use std::time::Duration;

/// Rows that run at a time.
const STREAMS: usize = 16;
const KILLS: u32 = 500;
/// By then whatever is made once has been made.
const SETTLED: u32 = 50;

fn service(blocks: u32, step_deadline: Duration) -> Service {
    // As many losses as there are.
    let options = Options { deaths_max: u32::MAX, step_deadline, ..options(2) };
    actors::start(Job::good(blocks).home(), options, text()).unwrap()
}

/// Of all kinds: short and long, greedy and sampled, with a stop string in the middle of what comes.
fn params(i: usize) -> Params {
    let temperature = if i.is_multiple_of(2) { 0.0 } else { 0.9 };
    Params { ignore_eos: !i.is_multiple_of(3), temperature, seed: Some(i as u64), ..greedy(20 + (i % 7) as u32 * 30) }
}

fn prompt(i: usize) -> String {
    format!("{i} ").repeat(1 + i % 90)
}

/// What came, but for times, how often it was interrupted, and what was in the prefix cache.
fn words(got: &Whole) -> (&str, u32, &Finish, u32, u32) {
    (&got.text, got.reported, &got.finish, got.usage.prompt_tokens, got.usage.completion_tokens)
}

/// A generator of moments, seeded: splitmix64.
fn chance(state: &Cell<u64>, below: u64) -> u64 {
    state.set(state.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
    let z = (state.get() ^ (state.get() >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % below
}

/// Waits for a worker other than `last` that has done some steps, or now and then one that has done none, and sends it a signal.
async fn strike(service: &Service, last: Option<u32>, signal: Signal, seed: &Cell<u64>) -> Option<u32> {
    let mut stats = service.watch();
    let early = chance(seed, 50) == 0;
    let pid = loop {
        let state = if early { WorkerState::Loading } else { WorkerState::Ready };
        let there =
            patiently(stats.wait_for(|s| s.worker.pid.is_some() && s.worker.pid != last && (s.worker.state == state || s.worker.state == WorkerState::Ready)));
        let now = there.await.unwrap().clone();
        if !early {
            let wanted = now.steps + 1 + chance(seed, 12);
            let moved = patiently(stats.wait_for(|s| s.steps >= wanted || s.worker.pid != now.worker.pid)).await.unwrap();
            if moved.worker.pid != now.worker.pid {
                continue;
            }
        }
        break now.worker.pid.unwrap();
    };
    // The process is a child that the service has not taken out of the system's table: its id is shown until it has.
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
    Some(pid)
}

/// Answers without end, until `enough`; each is held against what came without interruption. Gives their number and restarts.
async fn stream(service: &Service, lane: usize, alone: &[Whole], enough: &Cell<bool>) -> (u32, u32) {
    let (mut answers, mut restarts) = (0, 0);
    let mut i = lane;
    while !enough.get() {
        let at = i % alone.len();
        let got = whole(service.ask(ask(&prompt(at), params(at)))).await.unwrap();
        assert_eq!(words(&got), words(&alone[at]), "request {at}");
        answers += 1;
        restarts += got.timings.restarts;
        i += STREAMS;
    }
    (answers, restarts)
}

/// Descriptors, threads and bytes of this process, which is the server.
fn holds() -> (usize, u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok()).unwrap();
    (std::fs::read_dir("/proc/self/fd").unwrap().count(), field("Threads:"), field("VmRSS:") * 1024)
}

/// Prompts answered with nobody interrupting, held against the oracle.
async fn alone(service: &Service) -> Vec<Whole> {
    let mut alone = Vec::new();
    for i in 0..3 * STREAMS {
        let got = whole(service.ask(ask(&prompt(i), params(i)))).await.unwrap();
        agrees(&prompt(i), &params(i), &got);
        alone.push(got);
    }
    alone
}

pub(crate) fn five_hundred_kills_lose_nothing() {
    on_arbiter(async {
        let service = service(220, Duration::from_secs(60));
        let alone = alone(&service).await;
        let (enough, seed) = (Cell::new(false), Cell::new(7));
        let killing = async {
            let (mut last, mut before) = (None, None);
            for kills in 0..KILLS {
                if kills == SETTLED {
                    before = Some(holds());
                }
                last = strike(&service, last, Signal::KILL, &seed).await;
            }
            enough.set(true);
            before.unwrap()
        };
        let (before, streams) = tokio::join!(killing, join_all((0..STREAMS).map(|lane| stream(&service, lane, &alone, &enough))));
        let (answers, restarts) = streams.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        empty(&service).await;
        let stats = service.stats();
        println!("{KILLS} kills: {answers} answers, {restarts} interruptions, holds {before:?} then {:?}", holds());
        assert_eq!((stats.worker.exits, stats.worker.hangs, stats.worker.ipc), (u64::from(KILLS), 0, 0), "{:?}", stats.worker);
        assert!(restarts > KILLS, "{restarts}");
        let after = holds();
        assert!(after.0 <= before.0 && after.1 <= before.1, "{before:?} {after:?}");
        // 450 further lives leave nothing behind: 10 kB each would show.
        assert!(after.2 < before.2 + u64::from(KILLS - SETTLED) * 10_000, "{before:?} {after:?}");
        assert_eq!(children(), [stats.worker.pid.unwrap()]);
    });
}

/// This process's children, dead ones that nobody has waited for among them.
pub(crate) fn children() -> Vec<u32> {
    let own = std::process::id();
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| parent(pid) == Some(own)).collect()
}

pub(crate) fn a_worker_that_stands_still_is_replaced() {
    on_arbiter(async {
        let service = service(220, Duration::from_millis(1500));
        let alone = alone(&service).await;
        let (enough, seed) = (Cell::new(false), Cell::new(9));
        let stopping = async {
            let mut last = None;
            for _ in 0..5 {
                last = strike(&service, last, Signal::STOP, &seed).await;
            }
            // The last one is noticed, too.
            patiently(service.watch().wait_for(|s| s.worker.hangs == 5 && s.worker.state == WorkerState::Ready)).await.unwrap();
            enough.set(true);
        };
        let ((), streams) = tokio::join!(stopping, join_all((0..STREAMS).map(|lane| stream(&service, lane, &alone, &enough))));
        assert!(streams.iter().map(|(_, restarts)| restarts).sum::<u32>() > 0);
        empty(&service).await;
        let worker = service.stats().worker;
        assert_eq!((worker.exits, worker.hangs, worker.ipc), (0, 5, 0), "{worker:?}");
        assert!(worker.last_loss.is_some_and(|said| said.contains("has not ended within")));
    });
}
