//! Loads the model on its own thread and puts the actors up on theirs.

use crate::budget::Budget;
use crate::host;
use crate::model::{self, Model};
use crate::options::Options;
use crate::scheduling::Scheduling;
use crate::service::{Service, Setup};
use crate::stats::{MemoryStats, Stats};
use actix::{Actor, Addr, AsyncContext};
use crossbeam::channel::Sender;
use kv::{BLOCK_TOKENS, Pool, PoolConfig, Step};
use metrics::Metrics;
use models::engine::{Engine, EngineError, EngineInfo};
use models::text::Text;
use std::collections::VecDeque;
use std::sync::{Arc, mpsc};
use std::thread;
use tokio::sync::{oneshot, watch};

/// Opens the model. It runs on the model's own thread, and again on a new one if the model is lost.
pub type Opener = Box<dyn Fn() -> Result<Box<dyn Engine>, EngineError> + Send + Sync>;

/// Loads the model, waits for it, and starts the service. May be called from any thread; it blocks while the model loads.
///
/// # Errors
/// What the opener said, as it is; or that a thread could not start.
pub fn start(opener: Opener, options: Options, text: Arc<Text>) -> Result<Service, EngineError> {
    let opener = Arc::new(opener);
    let (steps, received) = crossbeam::channel::unbounded();
    let (info_to, info_from) = mpsc::sync_channel(1);
    let (model_to, model_from) = mpsc::sync_channel::<Addr<Model>>(1);
    host::spawn(Arc::clone(&opener), received, move |info| {
        // Either end gone means that `start` gave up; then the engine is dropped where it was made.
        info_to.send(info).ok()?;
        Some(model::said_by(0, model_from.recv().ok()?))
    })?;
    let ended = |_| EngineError::Step("the model's thread ended while loading".into());
    let info = info_from.recv().map_err(ended)??;

    let metrics = Arc::new(Metrics::new(&info.name, info.context));
    metrics.set_loaded(&info.name, &info.dtype, "l1", &info.device);
    metrics.set_cache_config(BLOCK_TOKENS, info.blocks, &info.dtype);
    let stats = Stats { memory: MemoryStats { weight_bytes: info.weight_bytes, ..MemoryStats::default() }, ..Stats::default() };
    let (publish, stats) = watch::channel(Arc::new(stats));
    let room = Room { opener, options: options.clone(), info: info.clone(), steps, metrics: Arc::clone(&metrics), publish };
    let (scheduling, model, stop) = room.open()?;
    // The thread waits for this address, and is gone only if it said so; a step sent to it would then say it again.
    model_to.send(model).map_err(|_| EngineError::Step("the model's thread ended after loading".into()))?;
    Ok(Service::new(Setup { info, options, text, metrics, stats, scheduling, stop }))
}

/// What the actors' thread is given.
struct Room {
    opener: Arc<Opener>,
    options: Options,
    info: EngineInfo,
    steps: Sender<Step>,
    metrics: Arc<Metrics>,
    publish: watch::Sender<Arc<Stats>>,
}

/// Addresses in the room, and the end that closes it when dropped.
type Opened = (Addr<Scheduling>, Addr<Model>, oneshot::Sender<()>);

impl Room {
    /// Scheduler, KV-budget and Model share one thread: a round trip between them is a microsecond there, and tens across.
    fn open(self) -> Result<Opened, EngineError> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (addresses_to, addresses_from) = mpsc::sync_channel(1);
        let body = move || {
            actix::System::new().block_on(async move {
                let addresses = self.actors();
                if addresses_to.send(addresses).is_ok() {
                    // Both outcomes mean the same: the last handle is gone.
                    let _ = stopped.await;
                }
            });
        };
        let thread = thread::Builder::new().name("scheduler".into()).spawn(body);
        thread.map_err(|error| EngineError::Step(format!("the scheduler's thread cannot start: {error}")))?;
        let ended = |_| EngineError::Step("the scheduler's thread ended while starting".into());
        let (scheduling, model) = addresses_from.recv().map_err(ended)?;
        Ok((scheduling, model, stop))
    }

    fn actors(self) -> (Addr<Scheduling>, Addr<Model>) {
        let Room { opener, options, info, steps, metrics, publish } = self;
        let pool = Pool::new(PoolConfig { blocks: info.blocks, block_tokens: BLOCK_TOKENS, block_bytes: info.block_bytes, prefix_cache: options.prefix_cache });
        let limits = limits(&options, &info);
        let mut model = None;
        let scheduling = Scheduling::create(|ctx| {
            let scheduling = ctx.address();
            let ledger = pool.ledger();
            let budget = Budget { pool, scheduling: scheduling.clone() };
            let started = Model {
                scheduling,
                opener,
                info,
                steps: Some(steps),
                life: 0,
                opening: false,
                step_deadline: options.step_deadline,
                in_flight: VecDeque::new(),
                deaths: VecDeque::new(),
                unheard: 0,
            }
            .put_up();
            model = Some(started.clone());
            Scheduling::new(limits, ledger, budget.start(), started, metrics, publish)
        });
        match model {
            Some(model) => (scheduling, model),
            None => unreachable!("`create` calls its argument before it returns"),
        }
    }
}

/// What the scheduler is bound by.
pub(crate) fn limits(options: &Options, info: &EngineInfo) -> scheduler::Limits {
    scheduler::Limits {
        batch: options.batch,
        prefill_chunk: options.prefill_chunk,
        step_tokens: options.step_tokens,
        context: info.context,
        depth: options.depth,
        // The service's permits are the one count of what may be here; all of them may still wait when none has been admitted.
        queue: options.queue.saturating_add(options.batch),
        pool_tokens: u64::from(info.blocks) * u64::from(BLOCK_TOKENS),
        block_tokens: BLOCK_TOKENS,
        prefix_cache: options.prefix_cache,
        window: info.window,
    }
}
