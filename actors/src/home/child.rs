//! The worker process: started, spoken to over a socket, killed where it must be, and always waited for.
//!
//! Four threads serve a life. One writes: a worker that does not read must not hold up whoever sends. One reads, and is the one that
//! sees the end: it makes sure that the process is gone and gives the last word. One passes on what the process logs, and one waits for
//! its end. A process that a fault of its device holds in the kernel ends late, or never, whatever it is sent: nobody else waits for it.

use super::{Ear, End, Program, Saying, log};
use crossbeam::channel::{Receiver, Sender, bounded, unbounded};
use kv::Step;
use metrics::WorkerCause;
use models::engine::EngineError;
use models::wire::frame::{Error, Reader, Writer};
use models::wire::{FromWorker, ToWorker};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
#[cfg(target_os = "linux")]
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::{self, PipeReader};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
#[cfg(target_os = "linux")]
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A process that has closed its connection, or is killed, usually ends within milliseconds. After so long it is told that it does not.
const END: Duration = Duration::from_secs(1);

/// A worker process. Dropping it kills it.
pub struct Process {
    messages: Sender<ToWorker>,
    child: Arc<Mutex<Child>>,
    pid: u32,
}

impl Process {
    pub(super) fn begin(program: &Program, blocks: Option<u32>, ear: Ear) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        let (log, log_end) = io::pipe()?;
        let mut command = (program.command)();
        command.stdin(OwnedFd::from(theirs)).stdout(log_end.try_clone()?).stderr(log_end);
        #[cfg(target_os = "linux")]
        // Even a worker that is stopped, and sees no connection end, goes with us.
        // SAFETY: between fork and exec only this system call is made.
        unsafe {
            command.pre_exec(|| set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into));
        }
        let child = command.spawn()?;
        // Our copies of the child's ends: while one is open, its death cannot be seen.
        drop(command);
        let pid = child.id();
        let child = Arc::new(Mutex::new(child));
        let (messages, received) = unbounded();
        let process = Process { messages, child: Arc::clone(&child), pid };
        if let Err(error) = attend(ours, log, (&child, pid), received, ear) {
            // Nobody would see its end.
            process.kill();
            wait(id(&child));
            child.lock().unwrap_or_else(PoisonError::into_inner).wait()?;
            return Err(error);
        }
        let open = ToWorker::Open { job: program.job.clone(), blocks };
        // A writer that has ended already has seen the worker's end, which will be told.
        drop(process.messages.send(open));
        Ok(process)
    }

    pub(super) fn step(&self, step: Step) {
        // As above.
        drop(self.messages.send(ToWorker::Step(step)));
    }

    pub(super) fn kill(&self) {
        kill(&self.child);
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts the threads; the one that gives the last word is the last.
fn attend(ours: UnixStream, log: PipeReader, (child, pid): (&Arc<Mutex<Child>>, u32), messages: Receiver<ToWorker>, ear: Ear) -> io::Result<()> {
    let (reader, child) = (Reader::new(ours.try_clone()?), Arc::clone(child));
    let (connection, own) = (ours.try_clone()?, id(&child));
    let (end, ended) = bounded(1);
    spawn("worker end", move || {
        wait(own);
        // Somebody else may hold the worker's end of the connection, which does not close then. It fails only where it is closed.
        let _ = connection.shutdown(Shutdown::Both);
        // Whoever reads is there until it has heard this.
        let _ = end.send(());
    })?;
    spawn("worker log", move || log::pass_on(log, pid))?;
    spawn("worker out", move || write(ours, &messages))?;
    spawn("worker in", move || read(reader, &child, &ended, &ear))
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(body).map(drop)
}

/// Writes until there is nobody to write for, or to.
fn write(socket: UnixStream, messages: &Receiver<ToWorker>) {
    let mut writer = match socket.try_clone() {
        Ok(socket) => Writer::new(socket),
        Err(error) => return give_up(&socket, &error),
    };
    for message in messages {
        if let Err(error) = writer.write(&message) {
            return give_up(&socket, &error);
        }
    }
}

/// The worker waits for what never comes: whoever reads sees the end of the connection, and ends the worker.
fn give_up(socket: &UnixStream, error: &io::Error) {
    if error.kind() != io::ErrorKind::BrokenPipe {
        tracing::error!(%error, "the worker cannot be written to");
    }
    // It fails only where the connection is closed already.
    let _ = socket.shutdown(Shutdown::Both);
}

fn read(mut reader: Reader<UnixStream>, child: &Mutex<Child>, ended: &Receiver<()>, ear: &Ear) {
    let told = loop {
        match reader.read() {
            Ok(FromWorker::Opened(info)) => ear(Saying::Opened(info)),
            Ok(FromWorker::Done(done, memory)) => ear(Saying::Done(done, memory)),
            // It has nothing more to say.
            Ok(FromWorker::Failed(error)) => break Told::Failed(error),
            Err(error @ (Error::Closed | Error::Truncated | Error::Io(_))) => break Told::Nothing(error),
            Err(error) => break Told::Nonsense(error),
        }
    };
    if let Told::Nonsense(_) = told {
        kill(child);
    }
    // Of itself, or killed for that or for a hang.
    let itself = ended.recv_timeout(END).is_ok();
    if !itself {
        kill(child);
        if ended.recv_timeout(END).is_err() {
            ear(Saying::Dying(end(&told, "it was killed, and does not end")));
            // Its other end is dropped once the process is gone.
            let _ = ended.recv();
        }
    }
    let status = child.lock().unwrap_or_else(PoisonError::into_inner).wait();
    let how = match status {
        Err(error) => format!("the worker process cannot be waited for: {error}"),
        Ok(status) => format!("the worker process ended: {status}"),
    };
    let told = match told {
        // It went on, and could not be heard any more.
        Told::Nothing(error) if !itself => Told::Nonsense(error),
        told => told,
    };
    ear(Saying::Ended(end(&told, &how)));
}

/// The last that came from a worker.
enum Told {
    Failed(EngineError),
    /// The end of the connection.
    Nothing(Error),
    Nonsense(Error),
}

/// Why it is over: what the worker said itself, else what came instead of a frame, else how the process ended.
fn end(told: &Told, how: &str) -> End {
    match told {
        Told::Failed(refused @ EngineError::Load { .. }) => End::Refused(refused.clone()),
        Told::Failed(EngineError::Step(reason)) => End::Died { cause: WorkerCause::Exit, reason: reason.clone() },
        Told::Nothing(_) => End::Died { cause: WorkerCause::Exit, reason: how.to_owned() },
        Told::Nonsense(error) => End::Died { cause: WorkerCause::Ipc, reason: format!("the worker could not be understood: {error}") },
    }
}

/// SIGKILL: a worker holds nothing that is worth an orderly end, and one that hangs knows no other.
fn kill(child: &Mutex<Child>) {
    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
    // It fails only where the process is gone already.
    let _ = child.kill();
}

fn id(child: &Mutex<Child>) -> Pid {
    Pid::from_child(&child.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Waits for a process's end, and leaves it in the system's table: until it is taken out its id cannot be another's. Never with the lock in
/// hand, which `kill` needs.
fn wait(pid: Pid) {
    while waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).err() == Some(Errno::INTR) {}
}
