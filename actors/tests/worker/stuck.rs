//! A worker that is killed and does not end, as one is that a fault of its device holds in the kernel. Here its debugger holds it.

use crate::deaths::on_arbiter;
use crate::house::{agrees, ask, empty, greedy, options, patiently, text, whole};
use crate::kills::children;
use crate::synthetic::Job;
use actors::{Options, Params, WorkerState};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::ptr::null_mut;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Kills a child of this process, which stands still at its end until this is dropped.
struct Stuck {
    release: Option<mpsc::Sender<()>>,
    debugger: Option<thread::JoinHandle<()>>,
}

impl Stuck {
    fn kill(pid: i32) -> Stuck {
        let (release, released) = mpsc::channel();
        let (to, held) = mpsc::channel();
        // Whoever traces a process is a thread, and nobody else may speak to it.
        let debugger = thread::spawn(move || {
            // SAFETY: plain system calls on a child of this process that nobody has waited for.
            unsafe {
                let seized = libc::ptrace(libc::PTRACE_SEIZE, pid, null_mut::<u8>(), libc::PTRACE_O_TRACEEXIT as usize);
                assert_eq!(seized, 0, "PTRACE_SEIZE: {}", std::io::Error::last_os_error());
                assert_eq!(libc::kill(pid, libc::SIGKILL), 0);
                // Not by waiting for it, which others do.
                while !stands(pid) {
                    thread::yield_now();
                }
                to.send(()).unwrap();
                // A test that failed has dropped its end.
                let _ = released.recv();
                libc::ptrace(libc::PTRACE_DETACH, pid, null_mut::<u8>(), 0usize);
            }
        });
        held.recv().unwrap();
        Stuck { release: Some(release), debugger: Some(debugger) }
    }
}

/// It is held by its debugger.
fn stands(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('t'))
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.release = None;
        if let Some(debugger) = self.debugger.take() {
            debugger.join().unwrap();
        }
    }
}

/// What is seen of it: nothing at all, or the end of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Closed,
}

pub(crate) fn a_worker_that_does_not_end_is_left_to_itself() {
    for seen in [Seen::Nothing, Seen::Closed] {
        on_arbiter(outlived(seen));
    }
}

async fn outlived(seen: Seen) {
    let options = Options { step_deadline: Duration::from_secs(2), ..options(2) };
    let service = actors::start(Job::good(64).home(), options, text()).unwrap();
    let params = Params { ignore_eos: true, ..greedy(400) };
    let killing = async {
        patiently(service.watch().wait_for(|stats| stats.tokens.generated > 20)).await.unwrap();
        let first = service.stats().worker.pid.unwrap();
        let pid = Pid::from_raw(first.cast_signed()).unwrap();
        let connection = pidfd_getfd(pidfd_open(pid, PidfdFlags::empty()).unwrap(), 0, PidfdGetfdFlags::empty()).unwrap();
        let stuck = Stuck::kill(first.cast_signed());
        if seen == Seen::Closed {
            UnixStream::from(connection).shutdown(Shutdown::Both).unwrap();
        }
        patiently(service.watch().wait_for(|stats| stats.worker.state == WorkerState::Lost)).await.unwrap();
        let said = service.stats().worker.last_loss.unwrap();
        assert!(said.contains(if seen == Seen::Closed { "does not end" } else { "has not ended within" }), "{said}");
        patiently(service.watch().wait_for(|stats| stats.worker.state == WorkerState::Ready)).await.unwrap();
        assert_ne!(service.stats().worker.pid, Some(first));
        stuck
    };
    let (got, stuck) = tokio::join!(whole(service.ask(ask("goes on", params.clone()))), killing);
    agrees("goes on", &params, &got.unwrap());
    empty(&service).await;
    let worker = service.stats().worker;
    let counted = if seen == Seen::Closed { (1, 0, 0) } else { (0, 1, 0) };
    assert_eq!((worker.exits, worker.hangs, worker.ipc), counted, "{worker:?}");
    // Once it can end, it is waited for.
    drop(stuck);
    patiently(async {
        while children() != [worker.pid.unwrap()] {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(service.ready(), Ok(()));
}
