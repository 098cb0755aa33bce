//! A server on loopback that speaks just enough HTTP: it reads a request whole, keeps it, and lets a test answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) head: Vec<String>,
    pub(crate) body: serde_json::Value,
}

/// Ends, and waits for every answer to end, when it is dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    address: SocketAddr,
    closing: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Asked>>>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// `answer` writes the whole answer; the connection is closed after it.
    pub(crate) fn new(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let closing = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (closed, kept) = (closing.clone(), asked.clone());
        let accepting = thread::spawn(move || {
            thread::scope(|scope| {
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    if closed.load(Ordering::SeqCst) {
                        break;
                    }
                    let (kept, answer) = (&kept, &answer);
                    scope.spawn(move || {
                        let request = read(&stream);
                        kept.lock().unwrap().push(request.clone());
                        answer(&request, &mut stream);
                    });
                }
            });
        });
        Server { url: format!("http://{address}"), address, closing, asked, accepting: Some(accepting) }
    }

    /// Every request so far, in the order of arrival.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        // Wakes the loop, which then sees the flag.
        let woken = TcpStream::connect(self.address);
        let ended = self.accepting.take().unwrap().join();
        if !thread::panicking() {
            woken.unwrap();
            ended.unwrap();
        }
    }
}

fn read(stream: &TcpStream) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let length = head.iter().find_map(|h| h.to_lowercase().strip_prefix("content-length: ").map(|n| n.parse().unwrap()));
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    let body = if body.is_empty() { serde_json::Value::Null } else { serde_json::from_slice(&body).unwrap() };
    Asked { path: head[0].split(' ').nth(1).unwrap().to_owned(), head, body }
}

/// A whole answer that is no stream.
pub(crate) fn plain(stream: &mut TcpStream, status: &str, body: &str) {
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).unwrap();
}

/// The head of a stream in chunked transfer coding.
pub(crate) fn begin(stream: &mut TcpStream) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
}

/// One piece in chunked transfer coding, in one write: a client that leaves on reading it must not fail the rest of it.
pub(crate) fn chunked(stream: &mut TcpStream, part: &[u8]) {
    let size = format!("{:x}\r\n", part.len());
    stream.write_all(&[size.as_bytes(), part, b"\r\n"].concat()).unwrap();
}

pub(crate) fn end(stream: &mut TcpStream) {
    stream.write_all(b"0\r\n\r\n").unwrap();
}

pub(crate) fn wait_until_closed(stream: &mut TcpStream) {
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

/// A stream as good servers send it: the role first, text, the reason, usage with empty choices, `[DONE]`.
pub(crate) fn answer_well(stream: &mut TcpStream, texts: &[&str], tokens: u32) {
    let mut body = String::from(": ping\n\n");
    body += "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    body.extend(texts.iter().map(|text| chunk(text)));
    body += &finish("length");
    body += &usage(7, tokens);
    body += "data: [DONE]\n\n";
    begin(stream);
    // In pieces that do not end where events end.
    body.as_bytes().chunks(50).for_each(|part| chunked(stream, part));
    end(stream);
}

/// The event of one piece of text.
pub(crate) fn chunk(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n")
}

pub(crate) fn finish(reason: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n")
}

/// The event with the usage, whose choices are empty.
pub(crate) fn usage(prompt_tokens: u32, completion_tokens: u32) -> String {
    format!("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{prompt_tokens},\"completion_tokens\":{completion_tokens}}}}}\n\n")
}
