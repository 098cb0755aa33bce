//! A TCP connection as hyper wants it, that may read at a bounded rate.

use hyper::rt::{Read, ReadBufCursor, Write};
use std::future::Future;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// One read takes so many bytes at most. An event of a stream is a tenth of it.
const READ_BYTES_MAX: usize = 4096;

/// A slow reader reads so often at most: often enough that its stream does not come in lumps, and far above a timer's millisecond.
const PACE: Duration = Duration::from_millis(50);

pub struct Socket {
    stream: TcpStream,
    pace: Option<Pace>,
}

/// Reads are as far apart as the bytes that they brought ask for.
struct Pace {
    bytes_per_s: f64,
    next: Pin<Box<Sleep>>,
}

impl Socket {
    pub fn new(stream: TcpStream, bytes_per_s: Option<f64>) -> Socket {
        let pace = bytes_per_s.map(|bytes_per_s| Pace { bytes_per_s, next: Box::pin(tokio::time::sleep_until(Instant::now())) });
        Socket { stream, pace }
    }
}

impl Pace {
    fn read_bytes_max(&self) -> usize {
        ((self.bytes_per_s * PACE.as_secs_f64()) as usize).clamp(1, READ_BYTES_MAX)
    }

    /// What a silent server saves is not made up for.
    fn has_read(&mut self, bytes: usize) {
        let from = self.next.deadline().max(Instant::now() - PACE);
        self.next.as_mut().reset(from + Duration::from_secs_f64(bytes as f64 / self.bytes_per_s));
    }
}

impl Read for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, mut into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let mut most = into.remaining().min(READ_BYTES_MAX);
        if let Some(pace) = &mut self.pace {
            ready!(pace.next.as_mut().poll(cx));
            most = most.min(pace.read_bytes_max());
        }
        // By way of the stack: hyper's buffer may be filled without unsafe code only by copying.
        let mut space = [MaybeUninit::uninit(); READ_BYTES_MAX];
        let mut read = ReadBuf::uninit(&mut space[..most]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
        into.put_slice(read.filled());
        let bytes = read.filled().len();
        if let Some(pace) = &mut self.pace {
            pace.has_read(bytes);
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Head and body of a request leave in one call.
    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, from)
    }
}
