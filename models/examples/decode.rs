//! Time of a decode step at a fixed context, the engine's own loop without HTTP: medians, tokens a second, peak memory.
//!
//! usage: decode MODEL [cpu|gpu|auto] [ROWS,…] [CONTEXT,…] [STEPS] [best|gather]        for example: decode ~/model gpu 1,8,32,16x4096 512 30
//!
//! ROWS may name its own context (16x4096); without one it is run at each CONTEXT. The weights are loaded once.
//! `gather`: none of this crate's kernels, so that decode rows gather their keys.

use kv::step::BLOCK_TOKENS;
use kv::{BlockId, Draw, Input, Sampling, SeqId, Step, StepId, StepRow};
use models::engine::{Engine, EngineError};
use models::mlx::DeviceChoice;
use models::mlx_engine::{MlxEngine, OpenOptions, Opened};
use std::time::Instant;

const CHUNK: u32 = 512;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: no other thread runs yet.
    unsafe { models::mlx::settle_environment() };
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |i: usize, default: &str| args.get(i).cloned().unwrap_or_else(|| default.to_owned());
    let device = match arg(1, "auto").as_str() {
        "cpu" => DeviceChoice::Cpu,
        "gpu" => DeviceChoice::Gpu,
        _ => DeviceChoice::Auto,
    };
    let contexts: Vec<u32> = arg(3, "512").split(',').map(str::parse).collect::<Result<_, _>>()?;
    let steps: u32 = arg(4, "30").parse()?;
    let mut cases: Vec<(u32, u32)> = Vec::new();
    for rows in arg(2, "1,8,16").split(',') {
        match rows.split_once('x') {
            Some((rows, context)) => cases.push((rows.parse()?, context.parse()?)),
            None => cases.extend(contexts.iter().map(|c| rows.parse().map(|rows| (rows, *c))).collect::<Result<Vec<_>, _>>()?),
        }
    }
    let path = args.first().ok_or("usage: decode MODEL [cpu|gpu|auto] [ROWS,…] [CONTEXT,…] [STEPS] [best|gather]")?.into();
    let began = Instant::now();
    let mut opened = Opened::open(&OpenOptions { path, name: None, device, dtype: None })?;
    match arg(5, "best").as_str() {
        "best" => {}
        "gather" => opened.gather_only(),
        other => return Err(format!("{other}: best and gather are possible").into()),
    }
    println!("{}", opened.route());
    println!("loaded {:.1} GB in {:.1} s", opened.weight_bytes() as f64 / 1e9, began.elapsed().as_secs_f64());
    let per_row = |context: u32| (context + steps + 1).div_ceil(BLOCK_TOKENS);
    let blocks = cases.iter().map(|(rows, context)| rows * per_row(*context)).max().unwrap_or(1);
    let longest = cases.iter().map(|(_, context)| *context).max().unwrap_or(1);
    let mut bench = Bench { engine: opened.into_engine(blocks, longest + steps + 1, false)?, per_row: 0, id: 0 };
    for (n, context) in cases {
        bench.per_row = per_row(context);
        let (ms, launch) = bench.decode(n, context, steps)?;
        let memory = bench.engine.memory();
        let (peak, active) = (memory.peak as f64 / 1e9, memory.active as f64 / 1e9);
        let rate = f64::from(n) * 1e3 / ms;
        println!(
            "rows {n:3}  context {context:5}  {ms:8.2} ms a step ({launch:.2} to launch it)  {rate:8.1} tok/s  peak {peak:.2} GB, {active:.2} GB between steps"
        );
    }
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

struct Bench {
    engine: MlxEngine,
    per_row: u32,
    id: u64,
}

impl Bench {
    /// Median milliseconds of a step of `rows` rows, two steps in flight as in service, and of launching it.
    fn decode(&mut self, rows: u32, context: u32, steps: u32) -> Result<(f64, f64), EngineError> {
        let vocab = self.engine.info().vocab;
        for start in (0..context).step_by(CHUNK as usize) {
            for row in 0..rows {
                let count = CHUNK.min(context - start);
                let ids = (start..start + count).map(|i| (100 + (i * 7919 + row * 104_729) % 30_000) % vocab).collect();
                let last = start + count == context;
                self.launch(vec![self.row(row, Input::Tokens(ids), start, last.then_some(0))])?;
                self.engine.finish()?;
            }
        }
        // The peak that is shown is that of decoding.
        mlx_rs::memory::reset_peak_memory().map_err(|e| EngineError::Step(e.what().to_owned()))?;
        let first = (0..rows).map(|row| self.row(row, Input::Tokens(vec![(7 + row) % vocab]), context, Some(1))).collect();
        self.launch(first)?;
        let (mut times, mut launches) = (Vec::new(), Vec::new());
        let mut last = Instant::now();
        for n in 1..steps {
            let next = (0..rows).map(|row| self.row(row, Input::FromPrevious, context + n, Some(n + 1))).collect();
            let began = Instant::now();
            self.launch(next)?;
            launches.push(began.elapsed().as_secs_f64() * 1e3);
            self.engine.finish()?;
            times.push(last.elapsed().as_secs_f64() * 1e3);
            last = Instant::now();
        }
        self.engine.finish()?;
        Ok((median(times), median(launches)))
    }

    fn launch(&mut self, rows: Vec<StepRow>) -> Result<(), EngineError> {
        self.id += 1;
        self.engine.launch(&Step { id: StepId(self.id), copies: Vec::new(), rows })
    }

    fn row(&self, row: u32, input: Input, start: u32, draw: Option<u32>) -> StepRow {
        let blocks = (start + input.count()).div_ceil(BLOCK_TOKENS);
        let sampling = Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0 };
        StepRow {
            seq: SeqId(row.into()),
            input,
            start,
            table: (0..blocks).map(|b| BlockId(1 + row * self.per_row + b)).collect(),
            draw: draw.map(|index| Draw::new(sampling, index)),
        }
    }
}
