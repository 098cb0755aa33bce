//! The program serving, as a child: started on a free port, watched through its log, ended by SIGTERM.

use super::{Answer, Reply, exit, program, send, until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Held by whoever serves the default model.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) struct Server {
    child: Child,
    pub(crate) addr: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
    /// Its end was asked for and seen.
    ended: bool,
    _turn: Option<MutexGuard<'static, ()>>,
}

/// The default model's file.
pub(crate) fn default_model() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = set("COXSWAIN_HOME").or_else(|| set("HOME").map(|h| h.join(".cache/coxswain"))).expect("COXSWAIN_HOME or HOME is set");
    let file = home.join("models/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(file.exists(), "{} is missing: `make model` fetches it", file.display());
    file
}

/// Asks a process to end.
pub(crate) fn signal(pid: u32) {
    // SAFETY: plain system call. The id is that of a child which nobody has waited for, so it cannot be another process's.
    let sent = unsafe { libc::kill(pid.cast_signed(), libc::SIGTERM) };
    assert_eq!(sent, 0, "SIGTERM: {}", std::io::Error::last_os_error());
}

/// Waits until nobody else serves the default model.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    // A test that failed with the turn in its hands has said so; that is no reason for the next one to fail.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Serves the default model. No other server of it is up meanwhile.
    pub(crate) fn of_default_model(args: &[&str]) -> Server {
        let file = default_model();
        let turn = turn();
        let mut server = Server::of(&file.to_string_lossy(), args);
        server._turn = Some(turn);
        server
    }

    /// Serves a model that loads in no time.
    pub(crate) fn of(model: &str, args: &[&str]) -> Server {
        Server::once("serving ", model, args, &[])
    }

    /// The same with variables of the environment.
    pub(crate) fn in_environment(model: &str, args: &[&str], environment: &[(&str, &str)]) -> Server {
        Server::once("serving ", model, args, environment)
    }

    /// Serves a model that is being loaded.
    pub(crate) fn loading(model: &str, args: &[&str]) -> Server {
        Server::once("listening ", model, args, &[])
    }

    /// Serves, in a process group of its own, and waits for the log line with this word before the address.
    fn once(word: &str, model: &str, args: &[&str], environment: &[(&str, &str)]) -> Server {
        let mut command = program();
        command.envs(environment.iter().copied());
        command.args(["serve", "--port", "0", "--model", model]).args(args).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let from = BufReader::new(child.stderr.take().unwrap());
        let to = Arc::clone(&log);
        // Reading never stops, or a full pipe would stop the server. It ends with the child.
        thread::spawn(move || from.lines().map_while(Result::ok).for_each(|line| to.lock().unwrap().push(line)));
        let at = |line: &String| line.split_once(word)?.1.split_once("on http://")?.1.split([' ', ';']).next()?.parse().ok();
        let said = |log: &Arc<Mutex<Vec<String>>>| log.lock().unwrap().iter().find_map(at);
        let addr = until("serving", || match (said(&log), child.try_wait().unwrap()) {
            (Some(addr), _) => Some(addr),
            (None, Some(status)) => panic!("{status} before serving: {:#?}", log.lock().unwrap()),
            (None, None) => None,
        });
        Server { child, addr, log, ended: false, _turn: None }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a log line that has `part` in it.
    pub(crate) fn logged(&self, part: &str) {
        self.logged_together(&[part]);
    }

    /// Waits for one that has all of these in it.
    pub(crate) fn logged_together(&self, parts: &[&str]) {
        until(&parts.join(", "), || self.log.lock().unwrap().iter().any(|line| parts.iter().all(|part| line.contains(part))).then_some(()));
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        send(self.addr, "GET", path, None).unwrap()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        send(self.addr, "POST", path, Some(body)).unwrap()
    }

    pub(crate) fn chat(&self, body: &Value) -> Answer {
        self.post("/v1/chat/completions", body).answer()
    }

    pub(crate) fn complete(&self, body: &Value) -> Answer {
        self.post("/v1/completions", body).answer()
    }

    pub(crate) fn stats(&self) -> Value {
        self.get("/stats").json()
    }

    /// A series of `/metrics`, summed over its labels; `label` picks some, such as `holder="rows"`.
    pub(crate) fn metric(&self, name: &str, label: &str) -> u64 {
        total(&self.get("/metrics").body(), name, label)
    }

    /// Waits until no row runs or waits and no row holds a byte.
    pub(crate) fn idle(&self) {
        until("no rows", || {
            let stats = self.stats();
            let none = |what: &Value| what.as_u64() == Some(0);
            let kv = &stats["kv"];
            (none(&stats["running"]) && none(&stats["waiting"]) && none(&stats["steps_in_flight"]) && none(&kv["rows_bytes"]) && none(&kv["held_bytes"]))
                .then_some(())
        });
    }

    /// A number of `/proc/PID/status`: bytes where the file has kB.
    pub(crate) fn proc_status(&self, field: &str) -> u64 {
        self.proc_status_of(self.pid(), field)
    }

    /// The same of another process, such as the worker.
    pub(crate) fn proc_status_of(&self, pid: u32, field: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = text.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':')).unwrap_or_else(|| panic!("no {field}: {text}"));
        let mut words = line.split_whitespace();
        let number: u64 = words.next().unwrap().parse().unwrap();
        number * if words.next() == Some("kB") { 1024 } else { 1 }
    }

    /// Connections that the server has open, as Linux lists them: local address, remote address, state and, at the end of its
    /// nine first fields, an inode, which is 0 once no process has the socket.
    pub(crate) fn connections(&self) -> usize {
        const LISTENS: &str = "0A";
        let port = format!(":{:04X}", self.addr.port());
        let text = std::fs::read_to_string(format!("/proc/{}/net/tcp", self.pid())).unwrap();
        let rows = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.filter(|f| f[1].ends_with(&port) && f[3] != LISTENS && f[9] != "0").count()
    }

    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Ends it without a word to it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.ended = true;
    }

    /// Waits for an end that was asked for.
    pub(crate) fn exit(&mut self) -> ExitStatus {
        let status = exit(&mut self.child, "the server");
        self.ended = true;
        status
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if thread::panicking() {
            // The test has failed already: what it left running must not outlive it, and a second panic would hide the first.
            let _ = self.child.kill();
            let _ = self.child.wait();
            let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            let of_asking = |line: &&String| !line.contains("\"/metrics\"") && !line.contains("\"/stats\"");
            log.iter().filter(of_asking).for_each(|line| eprintln!("{line}"));
            return;
        }
        signal(self.pid());
        let status = self.exit();
        assert_eq!(status.code(), Some(0), "{status}: {:#?}", self.log.lock().unwrap());
    }
}

/// A series of a metrics page, summed over its labels.
pub(crate) fn total(page: &str, name: &str, label: &str) -> u64 {
    let of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(label);
    let values: Vec<f64> = page.lines().filter(of).map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert!(!values.is_empty(), "no series {name} {label}:\n{page}");
    values.iter().sum::<f64>() as u64
}
