//! What tests of real models share: the recordings, and a small driver of steps over the model.

#![allow(unreachable_pub, clippy::unwrap_used)]

use kv::step::BLOCK_TOKENS;
use kv::{BlockId, Input, SeqId, Step, StepId, StepRow};
use models::check::{best, logits};
use models::mlx::DeviceChoice;
use models::mlx_engine::{OpenOptions, Opened};
use models::model::Model;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One record of `oracle/golden.py`.
#[derive(Debug, Deserialize)]
pub struct Golden {
    pub prompt_ids: Vec<u32>,
    pub out: Vec<u32>,
    pub text: String,
    /// Smallest distance of the two best logits on the way.
    pub min_gap: f32,
    pub first: First,
}

#[derive(Debug, Deserialize)]
pub struct First {
    pub ids: Vec<u32>,
    pub logits: Vec<f32>,
}

impl Golden {
    /// Ids must be equal, all of them when no step's gap is under `gap`.
    pub fn assert_answer(&self, out: &[(u32, f32)], gap: f32, how: &str) {
        for (n, (want, (got, distance))) in self.out.iter().zip(out).enumerate() {
            if self.min_gap < gap && *distance < gap {
                return;
            }
            assert_eq!(got, want, "{:?} {how}: id {n} (our gap {distance})", self.text);
        }
    }
}

pub fn golden() -> Vec<Golden> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../oracle/golden_smollm2_f32.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// The default model's file.
pub fn default_model() -> PathBuf {
    let home = std::env::var_os("COXSWAIN_HOME").map(PathBuf::from).unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/coxswain"));
    let file = home.join("models/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(file.exists(), "{} is missing: `make model` fetches it", file.display());
    file
}

/// A sequence on its way: its blocks are `base + 1 ..`.
#[derive(Debug, Clone)]
pub struct Row {
    seq: u64,
    base: u32,
    done: u32,
}

impl Row {
    pub fn new(seq: u64, base: u32) -> Row {
        Row { seq, base, done: 0 }
    }
}

/// MLX is for one thread at a time, and tests run on many.
static MLX: Mutex<()> = Mutex::new(());

pub struct Runner {
    model: Model,
    steps: u64,
    _turn: MutexGuard<'static, ()>,
}

impl Runner {
    pub fn default_model() -> Runner {
        // A test that failed while it held the turn has not harmed it.
        let turn = MLX.lock().unwrap_or_else(PoisonError::into_inner);
        let options = OpenOptions { path: default_model(), name: None, device: DeviceChoice::Cpu, dtype: None };
        let mut model = Opened::open(&options).unwrap().into_model();
        model.make_pool(200).unwrap();
        Runner { model, steps: 0, _turn: turn }
    }

    /// From here on passes keep their shape.
    pub fn keep_shape(&mut self) {
        self.model.keep_shape().unwrap();
    }

    /// Feeds tokens to rows in one step; gives each row's logits at its last token, in the order of `rows`.
    pub fn feed(&mut self, rows: &mut [Row], inputs: &[Vec<u32>]) -> Vec<Vec<f32>> {
        self.steps += 1;
        let row = |(r, ids): (&Row, &Vec<u32>)| {
            let blocks = (r.done + ids.len() as u32).div_ceil(BLOCK_TOKENS);
            StepRow {
                seq: SeqId(r.seq),
                input: Input::Tokens(ids.clone()),
                start: r.done,
                table: (1..=blocks).map(|b| BlockId(r.base + b)).collect(),
                draw: None,
            }
        };
        let step = Step { id: StepId(self.steps), copies: Vec::new(), rows: rows.iter().zip(inputs).map(row).collect() };
        let logits = logits(&mut self.model, &step).unwrap();
        for (r, ids) in rows.iter_mut().zip(inputs) {
            r.done += ids.len() as u32;
        }
        let vocab = self.model.config.vocab;
        logits.iter().map(|all| all[all.len() - vocab..].to_vec()).collect()
    }

    /// Greedy ids of prompts that run together, each with the distance of its two best logits.
    pub fn greedy(&mut self, prompts: &[Vec<u32>], count: usize) -> Vec<Vec<(u32, f32)>> {
        let mut rows: Vec<Row> = (0..prompts.len()).map(|i| Row::new(i as u64, i as u32 * 20)).collect();
        let mut inputs = prompts.to_vec();
        let mut out = vec![Vec::new(); prompts.len()];
        for _ in 0..count {
            let logits = self.feed(&mut rows, &inputs);
            for (i, z) in logits.iter().enumerate() {
                let best = best(z);
                out[i].push(best);
                inputs[i] = vec![best.0];
            }
        }
        out
    }

    /// Logits after the prompt and after each forced token, alone.
    pub fn forced_alone(&mut self, prompt: &[u32], forced: &[u32]) -> Vec<Vec<f32>> {
        let mut row = [Row::new(999, 150)];
        let mut out = self.feed(&mut row, &[prompt.to_vec()]);
        for id in forced {
            out.extend(self.feed(&mut row, &[vec![*id]]));
        }
        out
    }
}
