//! The worker as a process of its own: its standard input is the socket to the server. It lives for that server alone, and goes when
//! the server goes, whatever it is doing then.

use crate::engine::{Engine, EngineError};
use crate::wire::frame::{Error, Reader, Writer};
use crate::wire::{FromWorker, ToWorker};
use crate::worker;
use crossbeam::channel::{Sender, unbounded};
use kv::Step;
use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::thread;

/// Standard input as the socket that it must be.
///
/// # Errors
/// If it is none: somebody started the worker by hand.
pub fn socket() -> io::Result<UnixStream> {
    // SAFETY: the descriptor is the process's own from its start, and nothing else here reads standard input.
    let socket = unsafe { UnixStream::from_raw_fd(libc::STDIN_FILENO) };
    match socket.peer_addr() {
        Ok(_) => Ok(socket),
        Err(error) => {
            // Not ours to close.
            std::mem::forget(socket);
            Err(error)
        }
    }
}

/// Ctrl-C and a service manager's SIGTERM reach every process of a group. When to end is the server's to decide: its rows may still be
/// running. If it ends without a word, so does this process.
pub fn depend_on_the_server() {
    // SAFETY: plain system calls at the process's start; nothing here handles these signals.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
    }
}

/// Opens what the first frame describes, and runs steps. Returns when the engine has failed, which the server has been told; the process
/// should end then without MLX's destructors. When the server closes its end, or is gone, the process ends in here.
///
/// # Errors
/// If the first message does not come, or is none.
pub fn serve(socket: UnixStream, open: impl FnOnce(&[u8], Option<u32>) -> Result<Box<dyn Engine>, EngineError>) -> Result<(), Error> {
    let mut reader = Reader::new(socket.try_clone().map_err(Error::Io)?);
    let ToWorker::Open { job, blocks } = reader.read()? else {
        leave("the first message must open a model");
    };
    let (steps, received) = unbounded();
    thread::Builder::new().name("frames".into()).spawn(move || listen(reader, &steps)).map_err(Error::Io)?;
    let writer = RefCell::new(Writer::new(socket));
    let say = |message: FromWorker| {
        if let Err(error) = writer.borrow_mut().write(&message) {
            leave(&format!("the server cannot be told: {error}"));
        }
    };
    match worker::open(|| open(&job, blocks)) {
        Ok(engine) => {
            say(FromWorker::Opened(engine.info().clone()));
            worker::run(engine, &received, say);
        }
        Err(error) => say(FromWorker::Failed(error)),
    }
    Ok(())
}

/// Passes steps on until the server is gone.
fn listen(mut reader: Reader<UnixStream>, steps: &Sender<Step>) {
    loop {
        match reader.read() {
            // The loop has ended: its last word is being said.
            Ok(ToWorker::Step(step)) => drop(steps.send(step)),
            Ok(ToWorker::Open { .. }) => leave("a model is opened once in a worker's life"),
            Err(Error::Closed) => end(0),
            Err(error) => leave(&error.to_string()),
        }
    }
}

fn leave(why: &str) -> ! {
    // The server has the other end, and may be gone: then nobody reads it.
    let _ = writeln!(io::stderr(), "{why}");
    end(1)
}

/// Here and now: destructors of MLX must not run beside a step on another thread.
fn end(code: i32) -> ! {
    // SAFETY: nothing that this process holds outlives it.
    unsafe { libc::_exit(code) }
}
