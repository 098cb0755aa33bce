//! Two thousand streams at once, each with pieces that come at known times.

use crate::run;
use crate::server::{chunk, finish, usage};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

const STREAMS: usize = 2000;
const PIECES: u32 = 5;

/// Answers nobody before all are there.
async fn serve(listener: TcpListener, all: usize) {
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let (come, here) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    for _ in 0..all {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (come, here) = (come.clone(), here.clone());
        tokio::spawn(async move {
            read(&mut stream).await;
            let waits = here.notified();
            if come.fetch_add(1, Ordering::SeqCst) + 1 == all {
                here.notify_waiters();
            } else {
                waits.await;
            }
            answer(&mut stream).await;
        });
    }
}

/// A request's head and its body, which ends the only JSON object in it.
async fn read(stream: &mut TcpStream) {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"}") {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
    }
}

async fn answer(stream: &mut TcpStream) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..PIECES {
        stream.write_all(chunk("a").as_bytes()).await.unwrap();
        tokio::task::yield_now().await;
    }
    let end = finish("length") + &usage(3, PIECES) + "data: [DONE]\n\n";
    stream.write_all(end.as_bytes()).await.unwrap();
}

#[test]
fn two_thousand_are_in_flight_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(serve(listener, STREAMS));
        // Those that are still being answered.
        runtime.block_on(async {
            while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        });
    });
    let count = STREAMS.to_string();
    let run = run(&url, &["--requests", &count, "--rate", "4000", "--random-prompt", "3"]);
    serving.join().unwrap();
    assert_eq!((run.done, run.failed, run.delayed), (STREAMS, 0, 0), "{:?}", run.errors);
    assert_eq!(run.output_tokens, STREAMS as u64 * u64::from(PIECES));
    // For whoever reads along: a figure, not a condition.
    println!("{STREAMS} in flight: sent late by {:?} ms", run.late_ms);
}
