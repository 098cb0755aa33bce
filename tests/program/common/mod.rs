//! What the tests share: a server as a child process, a client, damaged model files.

mod gguf;
mod http;
mod server;
mod tensors;
mod tiny;

pub(crate) use gguf::Gguf;
pub(crate) use http::{Answer, Reply, begin, send};
pub(crate) use server::{Server, default_model, signal, total, turn};
pub(crate) use tensors::Tensors;
pub(crate) use tiny::{TINY, copy, names, tokenizer};

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Far more than anything here takes, even on a machine that is busy with other work: what never comes fails and does not hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Between two looks at a condition. Small beside a step, so that a look is not late by much.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// Waits until `look` gives something.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        thread::sleep(LOOK);
    }
}

/// The built program with nothing of the caller's environment that would change what it says.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coxswain"));
    // Threads of one matrix product wait for each other in a spin. Where something else has a core, as the other tests do, that
    // makes a step ten times slower; one thread never waits.
    command.env("OPENBLAS_NUM_THREADS", "1");
    command.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT").env("RUST_LOG", "info").env("RUST_BACKTRACE", "1").stdin(Stdio::null());
    command
}

/// Runs the program to its end with log lines off, so that standard error holds nothing but what it says of its failure.
pub(crate) fn ended(args: &[&str]) -> Output {
    let mut child = program().env("RUST_LOG", "error").args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Its output is a few lines: the pipes hold them, so that reading may wait for the end.
    exit(&mut child, &args.join(" "));
    child.wait_with_output().unwrap()
}

/// Waits for a child's end; one that does not end is killed.
pub(crate) fn exit(child: &mut Child, what: &str) -> ExitStatus {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{what}: has not ended within {PATIENCE:?}");
        }
        thread::sleep(LOOK);
    }
}

/// A chat with one message, greedy unless `more` says otherwise.
pub(crate) fn chat(text: &str, more: Value) -> Value {
    with(json!({"messages": [{"role": "user", "content": text}], "temperature": 0}), more)
}

/// A completion, greedy unless `more` says otherwise. Its prompt is text or ids.
pub(crate) fn completion(prompt: Value, more: Value) -> Value {
    with(json!({"prompt": prompt, "temperature": 0}), more)
}

fn with(mut body: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("{more} is not an object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

/// All answers of requests that are sent at once, in their order.
pub(crate) fn all_at_once(addr: SocketAddr, path: &str, bodies: &[Value]) -> Vec<Answer> {
    thread::scope(|scope| {
        let asked: Vec<_> = bodies.iter().map(|body| scope.spawn(move || send(addr, "POST", path, Some(body)).unwrap().answer())).collect();
        asked.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
