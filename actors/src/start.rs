//! Puts up the actors' thread, whose Model actor opens the model.

use crate::home::Home;
use crate::model::Model;
use crate::options::Options;
use crate::room::{First, Room};
use crate::service::{Service, Setup};
use crate::stats::{Stats, WorkerStats};
use models::engine::EngineError;
use models::text::Text;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use tokio::sync::{oneshot, watch};

/// Starts the service and waits until the model is open. May be called from any thread.
///
/// # Errors
/// What opening said, as it is; or that a thread could not start.
pub fn start(home: Home, options: Options, text: Arc<Text>) -> Result<Service, EngineError> {
    let (to, from) = mpsc::sync_channel(1);
    // Nobody to tell means that this function has given up.
    let service = begin(home, options, text, Box::new(move |outcome| drop(to.send(outcome))))?;
    from.recv().unwrap_or_else(|_| Err(EngineError::Step("the model's keeper ended while it was being opened".into())))?;
    Ok(service)
}

/// Starts the service; the model is being opened. `first` is told once: when it is open, or that it cannot be. A worker process that dies
/// meanwhile is started again, and nothing is told.
///
/// # Errors
/// If the actors' thread could not start.
pub fn begin(home: Home, options: Options, text: Arc<Text>, first: First) -> Result<Service, EngineError> {
    let worker = WorkerStats { mode: home.mode(), ..WorkerStats::default() };
    let (publish, stats) = watch::channel(Arc::new(Stats { worker, ..Stats::default() }));
    let loaded = Arc::new(OnceLock::new());
    let (stop, stopped) = oneshot::channel::<()>();
    let room = Room { home: Arc::new(home), options: options.clone(), text, publish, loaded: Arc::clone(&loaded), first: Some(first) };
    // Scheduler, KV-budget and Model share one thread: a round trip between them is a microsecond there, and tens across.
    let body = move || {
        actix::System::new().block_on(async move {
            let _model = Model::put_up(room);
            // Both outcomes mean the same: the last handle is gone.
            let _ = stopped.await;
        });
    };
    let thread = thread::Builder::new().name("scheduler".into()).spawn(body);
    thread.map_err(|error| EngineError::Step(format!("the scheduler's thread cannot start: {error}")))?;
    Ok(Service::new(Setup { options, stats, loaded, stop }))
}
