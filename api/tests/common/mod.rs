//! A real server over the synthetic engine, and a small HTTP/1.1 client that can misbehave.

#![allow(dead_code, unreachable_pub)] // each test binary uses its part
#![allow(clippy::unwrap_used)]

use actors::{Options, Service};
use api::{Keys, Running, ServeOptions};
use models::synthetic::{Shape, Synthetic};
use models::text::Text;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long anything may take here before the test gives up on it. Nothing is measured against it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Printable ASCII, one token a character. The end token lies behind what the model draws, so that every length is known.
const VOCAB: u32 = 95;

/// Tokens that no test lives to see the end of.
pub const ENDLESS: u32 = 900_000;

/// One id a printable ASCII character (byte-level, no merges), so that every answer of the synthetic model is plain text.
fn text() -> Text {
    let dir = tempfile::tempdir().unwrap();
    let name = |byte: u8| if byte == b' ' { "Ġ".to_owned() } else { char::from(byte).to_string() };
    let vocab: serde_json::Map<String, Value> = (b' '..=b'~').enumerate().map(|(id, byte)| (name(byte), id.into())).collect();
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": [{"id": 95, "content": "<eos>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
        "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
                  "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": []},
    });
    let template = "{% for m in messages %}[{{ m.role }}] {{ m.content }} {% endfor %}[assistant]";
    let config = json!({"eos_token": "<eos>", "chat_template": template});
    for (file, value) in [("tokenizer.json", tokenizer), ("tokenizer_config.json", config), ("generation_config.json", json!({"eos_token_id": 95}))] {
        std::fs::write(dir.path().join(file), value.to_string()).unwrap();
    }
    Text::from_dir(dir.path()).unwrap()
}

/// A server on a loopback port of its own; stopped when dropped.
pub struct Server {
    pub addr: SocketAddr,
    pub service: Service,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start() -> Server {
        Server::with(Options::default(), |_| {})
    }

    /// With numbers of one's own.
    pub fn with(options: Options, change: impl FnOnce(&mut ServeOptions)) -> Server {
        Server::spawn(options, change, false)
    }

    /// Runs until the process gets a signal, and listens for signals already.
    pub fn until_signal() -> Server {
        Server::spawn(Options::default(), |o| o.drain_timeout = PATIENCE, true)
    }

    fn spawn(options: Options, change: impl FnOnce(&mut ServeOptions), by_signal: bool) -> Server {
        let mut serve = ServeOptions { port: 0, workers: 2, ..ServeOptions::default() };
        change(&mut serve);
        let (send, receive) = mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let shape = Shape { name: "team/tiny-1".into(), vocab: VOCAB, context: 1_000_000, blocks: 32_768 };
                let opener = move |_| Ok(Box::new(Synthetic::new(shape.clone())) as Box<dyn models::engine::Engine>);
                let service = actors::start(actors::Home::Thread(Box::new(opener)), options, Arc::new(text())).unwrap();
                let running: Running = api::serve(service.clone(), serve).unwrap();
                let hello = (running.addrs()[0], service);
                if by_signal {
                    let mut serving = pin!(running.until_signal());
                    assert!(futures_util::poll!(serving.as_mut()).is_pending());
                    send.send(hello).unwrap();
                    return serving.await.unwrap();
                }
                send.send(hello).unwrap();
                // Either a word to stop, or the test is gone.
                let _ = stopped.await;
                running.shut_down().await.unwrap();
            });
        });
        let (addr, service) = receive.recv_timeout(PATIENCE).unwrap();
        Server { addr, service, stop: Some(stop), thread: Some(thread) }
    }

    pub fn client(&self) -> Client {
        let socket = TcpStream::connect(self.addr).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        Client { socket, unread: Vec::new() }
    }

    /// Begins the drain that comes before the stop, and does not wait for it.
    pub fn begin_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits for the end that something else brought about.
    pub fn ended(mut self) {
        self.thread.take().unwrap().join().unwrap();
    }

    /// Waits until no row runs or waits and every block is free or a cached prefix.
    pub fn wait_idle(&self) {
        self.wait("no row is left", |s| s.running == 0 && s.waiting == 0 && s.kv.rows_bytes == 0 && s.kv.held_bytes == 0);
    }

    pub fn wait(&self, what: &str, holds: impl Fn(&actors::Stats) -> bool) {
        let start = Instant::now();
        loop {
            let stats = self.service.stats();
            if holds(&stats) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "never came true: {what}; {stats:?}");
            std::thread::yield_now();
        }
    }
}

/// A server with these keys, each with further lines of its entry, and their secrets.
pub fn with_keys(keys: &[(&str, &str)]) -> (Server, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let (secrets, entries): (Vec<_>, Vec<_>) = keys.iter().map(|(name, more)| api::fresh_key(name).map(|(s, e)| (s, e + more)).unwrap()).unzip();
    std::fs::write(&path, entries.concat()).unwrap();
    let keys = Arc::new(Keys::open(&path).unwrap());
    (Server::with(Options { batch: 2, ..Options::default() }, |serve| serve.keys = Some(keys)), secrets)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.begin_stop();
        if let Some(ended) = self.thread.take().map(|t| t.join())
            && !std::thread::panicking()
        {
            ended.unwrap();
        }
    }
}

/// One connection.
pub struct Client {
    pub socket: TcpStream,
    unread: Vec<u8>,
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The `data:` of each frame; comments are left out.
    pub fn frames(&self) -> Vec<String> {
        frames(&self.body)
    }
}

pub fn frames(body: &[u8]) -> Vec<String> {
    let body = std::str::from_utf8(body).unwrap();
    let data = |frame: &str| frame.strip_prefix("data: ").map(str::to_owned);
    body.split("\n\n").filter_map(data).collect()
}

pub fn post(path: &str, body: &str) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").into_bytes()
}

impl Client {
    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub fn ask(&mut self, path: &str, body: Value) -> Response {
        self.send(&post(path, &body.to_string()));
        self.response()
    }

    pub fn get(&mut self, path: &str) -> Response {
        self.send(&get(path));
        self.response()
    }

    pub fn response(&mut self) -> Response {
        let mut response = self.head();
        if response.header("transfer-encoding") == Some("chunked") {
            while self.chunk(&mut response.body) {}
        } else {
            let length = response.header("content-length").map_or(0, |v| v.parse().unwrap());
            response.body = self.take(length);
        }
        response
    }

    /// Status and headers, the body unread.
    pub fn head(&mut self) -> Response {
        let head = String::from_utf8(self.take_until(b"\r\n\r\n")).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| line.split_once(':').map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned()));
        Response { status, headers: lines.map(|l| header(l).unwrap()).collect(), body: Vec::new() }
    }

    /// Adds one chunk of a chunked body; false after the last.
    pub fn chunk(&mut self, body: &mut Vec<u8>) -> bool {
        let size = String::from_utf8(self.take_until(b"\r\n")).unwrap();
        let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
        body.extend(self.take(size));
        assert_eq!(self.take(2), b"\r\n");
        size > 0
    }

    fn take_until(&mut self, mark: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.unread.windows(mark.len()).position(|w| w == mark) {
                return self.unread.drain(..at + mark.len()).collect();
            }
            self.more();
        }
    }

    fn take(&mut self, n: usize) -> Vec<u8> {
        while self.unread.len() < n {
            self.more();
        }
        self.unread.drain(..n).collect()
    }

    fn more(&mut self) {
        let mut buffer = [0; 16 * 1024];
        let n = self.socket.read(&mut buffer).unwrap();
        assert!(n > 0, "the server closed; unread: {:?}", String::from_utf8_lossy(&self.unread));
        self.unread.extend_from_slice(&buffer[..n]);
    }
}
