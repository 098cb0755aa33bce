//! The worker process: started, spoken to over a socket, killed where it must be, and always waited for.
//!
//! Four threads serve a life. One writes: a worker that does not read must not hold up whoever sends. One reads, and is the one that
//! sees the end: it makes sure that the process is gone and gives the last word. One passes on what the process logs, and one waits for
//! its end.

use super::{Ear, End, Program, Saying, log};
use crossbeam::channel::{Receiver, Sender, unbounded};
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
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

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
            reap(&child)?;
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
    let (ended, own) = (ours.try_clone()?, Pid::from_child(&child.lock().unwrap_or_else(PoisonError::into_inner)));
    spawn("worker end", move || {
        wait(own);
        // Somebody else may hold the worker's end of the connection, which does not close then. It fails only where it is closed.
        let _ = ended.shutdown(Shutdown::Both);
    })?;
    spawn("worker log", move || log::pass_on(log, pid))?;
    spawn("worker out", move || write(ours, &messages))?;
    spawn("worker in", move || read(reader, &child, &ear))
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

fn read(mut reader: Reader<UnixStream>, child: &Mutex<Child>, ear: &Ear) {
    let mut failed = None;
    let error = loop {
        match reader.read() {
            Ok(FromWorker::Opened(info)) => ear(Saying::Opened(info)),
            Ok(FromWorker::Done(done, memory)) => ear(Saying::Done(done, memory)),
            Ok(FromWorker::Failed(error)) => failed = Some(error),
            Err(error) => break error,
        }
    };
    kill(child);
    let status = reap(child);
    ear(Saying::Ended(ended(&error, failed, status)));
}

/// Why it is over: what the worker said itself, else what came instead of a frame, else how the process ended.
fn ended(error: &Error, failed: Option<EngineError>, status: io::Result<ExitStatus>) -> End {
    let how = match status {
        Ok(status) => format!("the worker process ended: {status}"),
        Err(error) => format!("the worker process cannot be waited for: {error}"),
    };
    match (error, failed) {
        (_, Some(refused @ EngineError::Load { .. })) => End::Refused(refused),
        (_, Some(EngineError::Step(reason))) => End::Died { cause: WorkerCause::Exit, reason },
        (Error::Closed | Error::Truncated | Error::Io(_), None) => End::Died { cause: WorkerCause::Exit, reason: how },
        (error, None) => End::Died { cause: WorkerCause::Ipc, reason: format!("the worker could not be understood: {error}") },
    }
}

/// SIGKILL: a worker holds nothing that is worth an orderly end, and one that hangs knows no other.
fn kill(child: &Mutex<Child>) {
    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
    // It fails only where the process is gone already.
    let _ = child.kill();
}

/// Waits for the process. Not with the lock in hand, which `kill` needs: until it is taken out of the system's table its id cannot be
/// another's.
fn reap(child: &Mutex<Child>) -> io::Result<ExitStatus> {
    let lock = || child.lock().unwrap_or_else(PoisonError::into_inner);
    wait(Pid::from_child(&lock()));
    lock().wait()
}

/// Waits for a process's end, and leaves it in the system's table.
fn wait(pid: Pid) {
    while waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).err() == Some(Errno::INTR) {}
}
