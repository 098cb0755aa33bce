//! Binds, serves, and stops without cutting anybody off.

use crate::keys::Keys;
use crate::routes::app;
use actix_web::dev::ServerHandle;
use actix_web::rt::signal::unix::{Signal, SignalKind, signal};
use actix_web::rt::task::JoinHandle;
use actix_web::{App, HttpServer};
use actors::Service;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// 10 MB: two million tokens of text.
pub(crate) const BODY_LIMIT_BYTES: usize = 10_000_000;
/// Time that answers which are done, but not yet sent, have to leave after the drain.
const FLUSH_S: u64 = 5;
/// An idle connection is kept this long: longer than the minute after which most clients' pools give one up, so that they close it first.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// Time a client has to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Where and how to serve.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// A name or an address. Anything but loopback needs `open`.
    pub host: String,
    /// 0: any free one; [`Running::addrs`] tells which.
    pub port: u16,
    /// Threads that read requests and write answers.
    pub workers: usize,
    pub body_limit_bytes: usize,
    /// Connections that may be open; further ones wait until one of them closes.
    pub connections: usize,
    /// The operator knows that anybody who reaches the address may use the model.
    pub open: bool,
    /// Whom it serves; None: whoever reaches it.
    pub keys: Option<Arc<Keys>>,
    /// Time that running rows have to finish after a signal.
    pub drain_timeout: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        // The model needs the cores more than we do: four threads carry thousands of tokens a second.
        let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(4);
        let drain_timeout = Duration::from_secs(30);
        ServeOptions {
            host: "127.0.0.1".into(),
            port: 8080,
            workers,
            body_limit_bytes: BODY_LIMIT_BYTES,
            connections: 900,
            open: false,
            keys: None,
            drain_timeout,
        }
    }
}

/// Why serving did not begin, in words for the operator.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{host} is no address of this machine's own: {reason}")]
    Host { host: String, reason: io::Error },
    #[error("{0} can be reached from other machines, and there are no keys: pass --keys, or --open to serve everybody who reaches it, or bind 127.0.0.1")]
    NotOpen(SocketAddr),
    #[error("{0} is in use by another program: stop it or choose another --port")]
    InUse(SocketAddr),
    #[error("cannot listen on {addr}: {reason}")]
    Listen { addr: SocketAddr, reason: io::Error },
    #[error("cannot start the HTTP threads: {0}")]
    Start(io::Error),
}

/// A server at work. Dropping this does not stop it.
pub struct Running {
    addrs: Vec<SocketAddr>,
    handle: ServerHandle,
    task: JoinHandle<io::Result<()>>,
    service: Service,
    drain_timeout: Duration,
    signals: Option<Signals>,
}

/// Addresses that are ours: bound before a model is loaded, so that one which is taken is told at once. Clients that come now wait.
pub struct Bound {
    listeners: Vec<TcpListener>,
    options: ServeOptions,
}

/// Binds every address of the host.
///
/// # Errors
/// If any is in use, if none can be listened on, or if one is not loopback, there are no keys, and `open` was not said.
pub fn bind(options: ServeOptions) -> Result<Bound, ServeError> {
    Ok(Bound { listeners: listen(&options)?, options })
}

/// Binds and serves: [`bind`], then [`Bound::serve`].
pub fn serve(service: Service, options: ServeOptions) -> Result<Running, ServeError> {
    bind(options)?.serve(service)
}

impl Bound {
    /// Serves in the background. Must be called inside an actix system.
    pub fn serve(self, service: Service) -> Result<Running, ServeError> {
        let Bound { listeners, options } = self;
        let addrs = listeners.iter().map(|l| l.local_addr()).collect::<Result<_, _>>().map_err(ServeError::Start)?;
        let configure = app(service.clone(), options.keys, options.body_limit_bytes);
        // A client that closes has left: without this a connection that is half closed would be served to its end. Signals are ours,
        // because a drain comes before the stop.
        let mut server = HttpServer::new(move || App::new().configure(configure.clone()))
            .workers(options.workers.max(1))
            .max_connections((options.connections / options.workers.max(1)).max(1))
            .disable_signals()
            .h1_allow_half_closed(false)
            .tcp_nodelay(true)
            .keep_alive(KEEP_ALIVE)
            .client_request_timeout(HEAD_TIMEOUT)
            .shutdown_timeout(FLUSH_S);
        for listener in listeners {
            server = server.listen(listener).map_err(ServeError::Start)?;
        }
        let server = server.run();
        let handle = server.handle();
        Ok(Running { addrs, handle, task: actix_web::rt::spawn(server), service, drain_timeout: options.drain_timeout, signals: None })
    }
}

/// Listens on every address of the host. A name may stand for an address family that the machine lacks: one is enough.
fn listen(options: &ServeOptions) -> Result<Vec<TcpListener>, ServeError> {
    let host = |reason| ServeError::Host { host: options.host.clone(), reason };
    let addrs: Vec<SocketAddr> = (options.host.as_str(), options.port).to_socket_addrs().map_err(host)?.collect();
    if let Some(addr) = addrs.iter().find(|a| !a.ip().to_canonical().is_loopback())
        && !options.open
        && options.keys.is_none()
    {
        return Err(ServeError::NotOpen(*addr));
    }
    let mut listeners = Vec::new();
    let mut failed = None;
    for addr in addrs {
        match TcpListener::bind(addr) {
            Ok(listener) => listeners.push(listener),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => return Err(ServeError::InUse(addr)),
            Err(reason) => failed = Some(ServeError::Listen { addr, reason }),
        }
    }
    match failed {
        Some(error) if listeners.is_empty() => Err(error),
        _ if listeners.is_empty() => Err(host(io::ErrorKind::NotFound.into())),
        _ => Ok(listeners),
    }
}

impl Running {
    /// Where it listens, with the real ports.
    pub fn addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Takes SIGTERM and Ctrl-C from here on, for [`Running::until_signal`]: one that comes as soon as the service is known to be
    /// up is not missed, and does not end the process the hard way.
    pub fn catch_signals(mut self) -> io::Result<Running> {
        self.signals = Some(Signals::new()?);
        Ok(self)
    }

    /// Serves until SIGTERM or Ctrl-C, then drains. A second signal cuts what still runs, which is told so; a third does not wait for that.
    pub async fn until_signal(mut self) -> io::Result<()> {
        let mut signals = self.signals.take().map_or_else(Signals::new, Ok)?;
        tokio::select! {
            name = signals.next() => tracing::info!(signal = name, "draining: no new requests, running rows finish"),
            ended = &mut self.task => return ended.map_err(io::Error::other)?,
        }
        let (handle, service) = (self.handle.clone(), self.service.clone());
        tokio::select! {
            done = self.shut_down() => return done,
            name = signals.next() => tracing::warn!(signal = name, "stopping at once: running rows are cut"),
        }
        let cut = async {
            service.drain(Duration::ZERO).await;
            handle.stop(true).await;
        };
        tokio::select! {
            () = cut => {}
            _ = signals.next() => handle.stop(false).await,
        }
        Ok(())
    }

    /// Refuses new work with 503, lets running rows finish up to the drain's timeout, sends what is left to send, and ends.
    pub async fn shut_down(self) -> io::Result<()> {
        self.service.drain(self.drain_timeout).await;
        self.handle.stop(true).await;
        self.task.await.map_err(io::Error::other)?
    }
}

/// The two signals that mean "stop".
struct Signals {
    term: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals { term: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binding_is_refused_with_the_address() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let at = |host: &str, port| listen(&ServeOptions { host: host.into(), port, ..ServeOptions::default() });
        let said = at("127.0.0.1", port).unwrap_err().to_string();
        assert!(said.contains(&format!("127.0.0.1:{port} is in use")), "{said}");
        for host in ["0.0.0.0", "::", "192.0.2.1"] {
            let said = at(host, 0).unwrap_err().to_string();
            assert!(said.contains("--open"), "{host}: {said}");
        }
        for host in ["127.0.0.1", "127.0.0.2", "localhost"] {
            assert!(!at(host, 0).unwrap().is_empty(), "{host}");
        }
        let open = ServeOptions { host: "0.0.0.0".into(), port: 0, open: true, ..ServeOptions::default() };
        assert_eq!(listen(&open).unwrap().len(), 1);
    }
}
