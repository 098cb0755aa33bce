//! What the Scheduler actor says of itself: the published [`Stats`] and the metrics of steps. It decides nothing.

use crate::rows::Board;
use crate::stats::Stats;
use kv::{Input, Ledger, Step, StepDone, StepId};
use metrics::{Invariant, KeySeries, KvBytes, Metrics, MlxMemory, StepPhase, StepShape};
use models::engine::Memory;
use scheduler::{Event, KeyId, Snapshot};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

pub(crate) struct Reporting {
    metrics: Arc<Metrics>,
    publish: watch::Sender<Arc<Stats>>,
    stats: Stats,
    /// Steps in flight, and whether they compute a part of some prompt: their time is told apart by that.
    launched: VecDeque<(StepId, StepPhase)>,
    /// Of every key that asked since the start.
    keys: BTreeMap<KeyId, KeySeries>,
    board: Arc<Board>,
}

impl Reporting {
    pub(crate) fn new(metrics: Arc<Metrics>, publish: watch::Sender<Arc<Stats>>, board: Arc<Board>) -> Reporting {
        let stats = Stats::clone(&publish.borrow());
        Reporting { metrics, publish, stats, launched: VecDeque::new(), keys: BTreeMap::new(), board }
    }

    /// All but what the Model actor says of the worker.
    pub(crate) fn publish(&self) {
        self.publish.send_modify(|shared| {
            let worker = shared.worker.clone();
            *shared = Arc::new(Stats { worker, ..self.stats.clone() });
        });
    }

    pub(crate) fn ledger(&mut self, ledger: Ledger) {
        if ledger.rows + ledger.prefix + ledger.held + ledger.free != ledger.total {
            self.metrics.invariant_violated(Invariant::K1);
        }
        self.stats.kv = ledger.into();
        let kv = &self.stats.kv;
        let bytes = KvBytes { rows: kv.rows_bytes + kv.held_bytes, prefix: kv.prefix_bytes, scratch: 0, free: kv.free_bytes };
        self.metrics.set_kv(bytes, kv.budget_bytes);
    }

    pub(crate) fn rows(&mut self, snapshot: &Snapshot) {
        self.stats.running = snapshot.running;
        self.stats.waiting = snapshot.waiting + snapshot.preempted;
        self.stats.steps_in_flight = snapshot.steps_in_flight;
        self.stats.draining = snapshot.draining;
        self.metrics.set_rows(self.stats.running as usize, self.stats.waiting as usize);
        let mut loads = snapshot.keys.iter().peekable();
        for (key, series) in &self.keys {
            // Both are in the order of their numbers, and every key with rows has asked.
            let load = loads.next_if(|load| load.key == *key);
            series.set_rows(load.map_or(0, |l| l.running), load.map_or(0, |l| l.waiting));
        }
        for (seq, computed) in &snapshot.prefills {
            self.board.note(*seq, |row| row.prefilled_tokens = row.prompt_tokens.min(*computed));
        }
    }

    /// A row of this key was taken.
    pub(crate) fn key(&mut self, key: KeyId, series: &KeySeries) {
        self.keys.entry(key).or_insert_with(|| series.clone());
    }

    pub(crate) fn launched(&mut self, step: &Step) {
        let mut shape = StepShape { rows: step.rows.len() as u32, ..StepShape::default() };
        for row in &step.rows {
            let decodes = match &row.input {
                Input::FromPrevious => true,
                Input::Tokens(tokens) => tokens.len() == 1 && row.draw.is_some(),
            };
            if decodes {
                shape.decode_tokens += 1;
            } else {
                shape.prefill_tokens += row.input.count();
            }
        }
        let phase = if shape.prefill_tokens > 0 { StepPhase::Prefill } else { StepPhase::Decode };
        self.launched.push_back((step.id, phase));
        self.metrics.step(shape);
    }

    pub(crate) fn stepped(&mut self, done: &StepDone, memory: Memory) {
        self.stats.steps += 1;
        self.stats.last_step_micros = done.micros;
        while let Some((step, phase)) = self.launched.pop_front_if(|(step, _)| *step <= done.id) {
            if step == done.id {
                self.metrics.step_phase(phase, Duration::from_micros(done.micros));
            }
        }
        self.stats.memory.active_bytes = memory.active;
        self.stats.memory.cache_bytes = memory.cache;
        self.stats.memory.peak_bytes = memory.peak;
        self.metrics.set_mlx_memory(MlxMemory { active: memory.active, cache: memory.cache, peak: memory.peak });
    }

    pub(crate) fn planned(&self, took: Duration) {
        self.metrics.step_phase(StepPhase::Plan, took);
    }

    pub(crate) fn replied(&self, took: Duration) {
        self.metrics.step_phase(StepPhase::Reply, took);
    }

    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::Token { .. } => self.stats.tokens.generated += 1,
            Event::Preempted { .. } => {
                self.stats.preemptions += 1;
                self.metrics.preempted();
            }
            Event::Finished { stop_token: true, .. } => self.stats.tokens.generated += 1,
            Event::Admitted { cached, .. } => self.stats.tokens.cached += u64::from(*cached),
            Event::Resumed { recomputed, .. } => self.metrics.recomputed(*recomputed),
            Event::Finished { .. } => {}
        }
    }

    /// A row was admitted that has this many prompt tokens.
    pub(crate) fn prompt(&mut self, tokens: u32) {
        self.stats.tokens.prompt += u64::from(tokens);
    }

    pub(crate) fn retry_after_s(&mut self, seconds: u32) {
        self.stats.retry_after_s = seconds;
    }

    pub(crate) fn draining(&mut self) {
        self.stats.draining = true;
    }

    pub(crate) fn lost(&mut self) {
        self.launched.clear();
        // Nothing is left on the device.
        let kv = &mut self.stats.kv;
        (kv.rows_bytes, kv.prefix_bytes, kv.held_bytes, kv.free_bytes) = (0, 0, 0, kv.budget_bytes);
        self.metrics.set_kv(KvBytes { free: kv.budget_bytes, ..KvBytes::default() }, kv.budget_bytes);
        (self.stats.memory.active_bytes, self.stats.memory.cache_bytes) = (0, 0);
        self.metrics.set_mlx_memory(MlxMemory { peak: self.stats.memory.peak_bytes, ..MlxMemory::default() });
        self.stats.restarts += 1;
        self.stats.opening = true;
    }

    pub(crate) fn back(&mut self) {
        self.stats.opening = false;
        self.stats.lost = None;
    }

    /// A row that ran when the model was lost runs again.
    pub(crate) fn recovered(&self) {
        self.metrics.recovered();
    }

    pub(crate) fn gone(&mut self, reason: &str) {
        self.launched.clear();
        self.stats.lost = Some(reason.to_owned());
    }
}
