//! The engine that serves: a model and its pool on MLX, steps launched ahead of their results.

use crate::config::Config;
use crate::engine::{Engine, EngineError, EngineInfo, Memory};
use crate::files;
use crate::mlx::{self, DeviceChoice, Place, Res};
use crate::model::{Model, failed};
use crate::packing::Packing;
use crate::sample;
use crate::weights::{self, Float};
use kv::{Draw, Geometry, RowFault, RowResult, SeqId, Step, StepDone, StepId};
use mlx_rs::transforms::async_eval;
use mlx_rs::{Array, ops};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How a model is opened.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenOptions {
    /// A folder in MLX's or Hugging Face's layout, or a GGUF file.
    pub path: PathBuf,
    /// What `/v1/models` shows; None: the folder's or file's name.
    pub name: Option<String>,
    pub device: DeviceChoice,
    /// Some: weights are made dense in this type. None: f32 on the CPU, as stored on a GPU.
    pub dtype: Option<Float>,
}

/// A model with its weights loaded and no pool yet: the pool's size may depend on what memory is left.
#[derive(Debug)]
pub struct Opened {
    model: Model,
    name: String,
    place: Place,
    files: u64,
}

/// Serves steps. Every MLX object of the process is in here.
#[derive(Debug)]
pub struct MlxEngine {
    info: EngineInfo,
    model: Model,
    flight: VecDeque<Flight>,
    /// Tokens of the step launched last, for `Input::FromPrevious`.
    previous: Option<(Array, Vec<SeqId>)>,
}

/// A launched step.
#[derive(Debug)]
struct Flight {
    id: StepId,
    parts: Vec<Part>,
    launched: Instant,
}

/// A launched pass.
#[derive(Debug)]
struct Part {
    /// The rows that draw, by index in the step.
    draws: Vec<(usize, SeqId)>,
    /// None when nobody draws.
    drawn: Option<sample::Drawn>,
    /// What was asked for.
    wait: Vec<Array>,
}

impl Opened {
    /// Loads the weights. Errors are [`EngineError::Load`] and name file and tensor or field.
    pub fn open(o: &OpenOptions) -> Result<Opened, EngineError> {
        let load = |reason: String| EngineError::Load { file: o.path.clone(), reason };
        let place = mlx::choose(o.device).map_err(load)?;
        let dense = dense(o, place);
        let (config, source) = weights::open(&o.path)?;
        let files = files::mark(&o.path).map_err(|e| load(e.to_string()))?;
        let model = Model::load(config, source.as_ref(), dense, place)?;
        Ok(Opened { model, name: o.name.clone().unwrap_or_else(|| name_of(&o.path)), place, files })
    }

    /// What its K and V take.
    pub fn geometry(&self) -> Geometry {
        self.model.geometry()
    }

    pub fn weight_bytes(&self) -> u64 {
        self.model.weight_bytes()
    }

    /// Positions the model was made for.
    pub fn context(&self) -> u32 {
        self.model.config.context as u32
    }

    pub fn place(&self) -> Place {
        self.place
    }

    /// How decode rows read their keys, in one line.
    pub fn route(&self) -> &str {
        self.model.route()
    }

    /// Decode rows gather their keys instead of using a kernel of this crate: to compare.
    pub fn gather_only(&mut self) {
        self.model.gather_only();
    }

    /// The model alone, for checking logits.
    pub fn into_model(self) -> Model {
        self.model
    }

    /// Whether decode rows gather their keys, which takes memory in every step; a kernel reads them in the pool.
    pub fn gathers(&self) -> bool {
        !self.model.has_paged_kernel()
    }

    /// What its files say of it.
    pub fn config(&self) -> &Config {
        &self.model.config
    }

    /// Allocates the pool and is ready for steps; `deterministic`: in passes that keep their shape (see [`crate::tiles`]).
    pub fn into_engine(mut self, blocks: u32, context: u32, deterministic: bool) -> Result<MlxEngine, EngineError> {
        self.model.make_pool(blocks)?;
        if deterministic {
            self.model.keep_shape()?;
        }
        let info = EngineInfo {
            name: self.name,
            context,
            vocab: self.model.config.vocab as u32,
            blocks,
            block_bytes: self.model.block_bytes(),
            window: self.model.geometry().window(),
            weight_bytes: self.model.weight_bytes(),
            dtype: format!("{:?}", self.model.dtype()).to_lowercase(),
            device: if self.place == Place::Gpu { "gpu".to_owned() } else { "cpu".to_owned() },
            files: self.files,
        };
        Ok(MlxEngine { info, model: self.model, flight: VecDeque::new(), previous: None })
    }
}

impl MlxEngine {
    /// The model again, without its pool.
    pub(crate) fn into_opened(mut self) -> Result<Opened, EngineError> {
        self.model.make_pool(0)?;
        let place = if self.info.device == "gpu" { Place::Gpu } else { Place::Cpu };
        Ok(Opened { model: self.model, name: self.info.name, place, files: self.info.files })
    }

    fn pass(&mut self, step: &Step, packing: Packing, previous: Option<&Array>) -> Result<Part, EngineError> {
        let passed = self.model.pass(step, packing, previous)?;
        let p = &passed.packing;
        let draws: Vec<&Draw> = p.drawing.iter().filter_map(|i| step.rows[*i].draw.as_ref()).collect();
        let drawn = if draws.is_empty() { None } else { Some(sample::draw(&self.model.logits(&passed, &p.last)?, &draws).map_err(failed)?) };
        let draws = p.drawing.iter().map(|i| (*i, step.rows[*i].seq)).collect();
        // Hidden states need all that a pass wrote: with nobody drawing, they are what there is to wait for.
        let wait = match &drawn {
            Some(d) => [&d.tokens, &d.finite].into_iter().chain(d.reported.iter().flat_map(|said| said.arrays())).cloned().collect(),
            None => vec![passed.hidden],
        };
        Ok(Part { draws, drawn, wait })
    }
}

/// All tokens that a step drew, `[R]`, and whose they are.
fn together(parts: &[Part]) -> Res<Option<(Array, Vec<SeqId>)>> {
    let tokens: Vec<&Array> = parts.iter().filter_map(|p| p.drawn.as_ref()).map(|d| &d.tokens).collect();
    let seqs = parts.iter().flat_map(|p| &p.draws).map(|(_, seq)| *seq).collect();
    Ok(match tokens[..] {
        [] => None,
        [one] => Some((one.clone(), seqs)),
        _ => Some((ops::concatenate(&tokens, 0)?, seqs)),
    })
}

/// The type that weights are made dense in; None keeps them as stored.
pub(crate) fn dense(o: &OpenOptions, place: Place) -> Option<Float> {
    o.dtype.or((place == Place::Cpu).then_some(Float::F32))
}

/// A folder's name, or a file's without its ending and quantisation.
fn name_of(path: &Path) -> String {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let name = if path.is_dir() { whole.file_name() } else { whole.file_stem() };
    let name = name.map_or_else(|| "model".to_owned(), |n| n.to_string_lossy().into_owned());
    match name.rsplit_once(['.', '-']) {
        Some((base, tag)) if !base.is_empty() && ["q4_0", "q4_1", "q8_0", "f16", "f32", "bf16"].contains(&tag.to_lowercase().as_str()) => base.to_owned(),
        _ => name,
    }
}

impl Engine for MlxEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn launch(&mut self, step: &Step) -> Result<(), EngineError> {
        let launched = Instant::now();
        let previous = self.previous.take();
        let passes = self.model.passes(step, previous.as_ref().map_or(&[], |(_, seqs)| seqs))?;
        self.model.copy(step)?;
        let mut parts = Vec::with_capacity(passes.len());
        for packing in passes {
            let part = self.pass(step, packing, previous.as_ref().map(|(tokens, _)| tokens))?;
            // Each is on its way before the next is built, so that nothing still to be computed reads the pool that the next one writes.
            async_eval(&part.wait).map_err(failed)?;
            parts.push(part);
        }
        self.previous = together(&parts).map_err(failed)?;
        self.flight.push_back(Flight { id: step.id, parts, launched });
        Ok(())
    }

    fn finish(&mut self) -> Result<StepDone, EngineError> {
        let f = self.flight.pop_front().ok_or_else(|| EngineError::Step("no step is in flight".to_owned()))?;
        let mut results = Vec::new();
        for part in &f.parts {
            for a in &part.wait {
                a.eval().map_err(failed)?;
            }
            let Some(d) = &part.drawn else { continue };
            let first = results.len();
            let each = d.tokens.as_slice::<i32>().iter().zip(d.finite.as_slice::<bool>());
            for ((row, seq), (token, finite)) in part.draws.iter().zip(each) {
                let token = if *finite { Ok(*token as u32) } else { Err(RowFault::NotFinite) };
                results.push((*row, RowResult::new(*seq, token)));
            }
            for (place, said) in d.reported.iter().flat_map(sample::Reported::read) {
                results[first + place].1.logprobs = Some(Box::new(said));
            }
        }
        results.sort_by_key(|(row, _)| *row);
        let results = results.into_iter().map(|(_, result)| result).collect();
        Ok(StepDone { id: f.id, results, micros: f.launched.elapsed().as_micros() as u64 })
    }

    fn memory(&self) -> Memory {
        // These three only fail where MLX has no allocator at all, and then there is nothing to report.
        let get = |r: Result<usize, _>| r.map_or(0, |n: usize| n as u64);
        Memory { active: get(mlx_rs::memory::active_memory()), cache: get(mlx_rs::memory::cache_memory()), peak: get(mlx_rs::memory::peak_memory()) }
    }
}
