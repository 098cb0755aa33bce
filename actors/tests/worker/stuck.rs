//! A worker that is killed and does not end, as one is that a fault of its device holds in the kernel. Here its debugger holds it.

use crate::deaths::on_arbiter;
use crate::house::{agrees, ask, empty, greedy, options, patiently, text, whole};
use crate::kills::children;
use crate::synthetic::Job;
use actors::{Options, Params, WorkerState};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::io::{BufRead, BufReader, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;
use std::time::Duration;

/// Kills a child of this process, which stands still at its end until this is dropped. Its debugger is a process of its own: of what it
/// traces itself a process hears more than that it has ended.
struct Stuck(Child);

impl Stuck {
    fn kill(pid: u32) -> Stuck {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut debugger = command.arg("debugger").arg(pid.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(debugger.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "held\n");
        Stuck(debugger)
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let ended = self.0.wait();
        assert!(std::thread::panicking() || ended.unwrap().success());
    }
}

/// The debugger: kills a process, says when it stands at its end, and lets it go when nothing more comes in.
pub(crate) fn debug(pid: i32) {
    // SAFETY: plain system calls.
    unsafe {
        let seized = libc::ptrace(libc::PTRACE_SEIZE, pid, null_mut::<u8>(), libc::PTRACE_O_TRACEEXIT as usize);
        assert_eq!(seized, 0, "PTRACE_SEIZE: {}", std::io::Error::last_os_error());
        assert_eq!(libc::kill(pid, libc::SIGKILL), 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &raw mut status, libc::__WALL), pid);
        assert_eq!(status >> 8, libc::SIGTRAP | (libc::PTRACE_EVENT_EXIT << 8), "it stands at its end");
    }
    println!("held");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    // SAFETY: as above. Whoever is gone meanwhile needs nothing more.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, null_mut::<u8>(), 0usize) };
}

/// Lets any process be this one's debugger, where the system asks for that; elsewhere it fails.
pub(crate) fn may_be_debugged() {
    // SAFETY: plain system call.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
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
        let stuck = Stuck::kill(first);
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
