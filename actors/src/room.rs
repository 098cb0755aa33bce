//! What the first opening of the model brings about: once its sizes are known, Scheduler and KV-budget are put up for it.

use crate::budget::Budget;
use crate::check::Bounds;
use crate::home::Home;
use crate::model::Model;
use crate::options::Options;
use crate::request::Desk;
use crate::rows::Board;
use crate::scheduling::Scheduling;
use crate::service::{Loaded, ModelCard};
use crate::speech::Speech;
use crate::stats::{MemoryStats, Stats};
use actix::{Actor, Addr, AsyncContext};
use kv::{BLOCK_TOKENS, Pool, PoolConfig};
use metrics::Metrics;
use models::engine::{EngineError, EngineInfo};
use models::text::Text;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{Semaphore, watch};

/// Long prompts tokenized at once: each takes memory of many times its size, and a core.
const ASIDE_MAX: usize = 2;

/// Who waits for the first opening.
pub(crate) type First = Box<dyn FnOnce(Result<(), EngineError>) + Send>;

/// What the actors' thread is given.
pub(crate) struct Room {
    pub(crate) home: Arc<Home>,
    pub(crate) options: Options,
    pub(crate) text: Arc<Text>,
    pub(crate) publish: watch::Sender<Arc<Stats>>,
    pub(crate) loaded: Arc<OnceLock<Loaded>>,
    pub(crate) first: Option<First>,
}

impl Room {
    /// The model is open for the first time: whoever asks is served from here on.
    pub(crate) fn put_up(&mut self, info: &EngineInfo, model: Addr<Model>) -> (Addr<Scheduling>, Arc<Metrics>) {
        let Room { options, text, publish, .. } = &*self;
        let metrics = Arc::new(Metrics::new(&info.name, info.context));
        metrics.set_loaded(&info.name, &info.dtype, "l1", &info.device);
        metrics.set_cache_config(BLOCK_TOKENS, info.blocks, &info.dtype);
        let memory = MemoryStats { weight_bytes: info.weight_bytes, ..MemoryStats::default() };
        publish.send_modify(|stats| Arc::make_mut(stats).memory = memory);

        let pool = Pool::new(PoolConfig { blocks: info.blocks, block_tokens: BLOCK_TOKENS, block_bytes: info.block_bytes, prefix_cache: options.prefix_cache });
        let limits = limits(options, info);
        let row_tokens_max = limits.row_tokens_max();
        let board = Arc::new(Board::default());
        let (to, publish, lines) = (Arc::clone(&metrics), publish.clone(), Arc::clone(&board));
        let scheduling = Scheduling::create(move |ctx| {
            let ledger = pool.ledger();
            let budget = Budget { pool, scheduling: ctx.address() };
            Scheduling::new(limits, ledger, budget.start(), model, to, publish, lines)
        });

        // A clock before 1970 is wrong by more than this field can say.
        let created_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let desk = Desk {
            bounds: Bounds { context: info.context, pool_tokens: row_tokens_max, vocab: info.vocab },
            model: info.name.clone(),
            speech: Speech::new(text, self.options.dialect, self.options.reasoning),
            stop_ids: text.stop_ids().into(),
            text: Arc::clone(text),
            metrics: Arc::clone(&metrics),
            scheduling: scheduling.clone(),
            board,
            aside: Arc::new(Semaphore::new(ASIDE_MAX)),
        };
        let card = ModelCard { id: info.name.clone(), created_unix_s, context_length: info.context };
        let set = self.loaded.set(Loaded { card, desk: Arc::new(desk) });
        assert!(set.is_ok(), "the model is opened for the first time once");
        self.tell(Ok(()));
        (scheduling, metrics)
    }

    /// How the first opening went, to whoever waits for it.
    pub(crate) fn tell(&mut self, outcome: Result<(), EngineError>) {
        if let Some(first) = self.first.take() {
            first(outcome);
        }
    }
}

/// What the scheduler is bound by.
fn limits(options: &Options, info: &EngineInfo) -> scheduler::Limits {
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
