//! What all tests here need: a service over a watched engine, an answer read to its end, and the oracle.

use actors::{Answer, Ask, Event, Failure, Finish, Form, Home, Key, Opener, Options, Params, Prompt, Service, Timings, Usage};
use kv::{BlockId, Draw, Sampling, Step, StepDone};
use models::engine::{Engine, EngineError, EngineInfo, Memory};
use models::synthetic::text::{END, VOCAB, write_dir};
use models::synthetic::{self, Shape, Synthetic};
use models::text::Text;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Far more than any test needs; a test that waits for what never comes fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn patiently<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it should have happened by now")
}

pub(crate) fn text() -> Arc<Text> {
    let dir = tempfile::tempdir().unwrap();
    write_dir(dir.path()).unwrap();
    Arc::new(Text::from_dir(dir.path()).unwrap())
}

pub(crate) fn shape(blocks: u32) -> Shape {
    Shape { blocks, ..Shape::default() }
}

pub(crate) fn options(depth: u32) -> Options {
    Options { depth, prefill_chunk: 64, step_tokens: 96, ..Options::default() }
}

/// A service over a [`Watched`] engine with no hooks.
pub(crate) fn service(blocks: u32, options: Options) -> Service {
    let opener: Opener = Box::new(move |_| Ok(Box::new(Watched::new(shape(blocks)))));
    actors::start(Home::Thread(opener), options, text()).unwrap()
}

type OnLaunch = Box<dyn FnMut(&Step) -> Result<(), EngineError>>;
type OnDone = Box<dyn FnMut(&mut StepDone)>;

/// The synthetic engine behind checks of every step: the budget holds, and no two rows write one block.
pub(crate) struct Watched {
    inner: Synthetic,
    on_launch: OnLaunch,
    on_done: OnDone,
}

impl Watched {
    pub(crate) fn new(shape: Shape) -> Watched {
        Watched { inner: Synthetic::new(shape), on_launch: Box::new(|_| Ok(())), on_done: Box::new(|_| ()) }
    }

    pub(crate) fn on_launch(mut self, hook: impl FnMut(&Step) -> Result<(), EngineError> + 'static) -> Watched {
        self.on_launch = Box::new(hook);
        self
    }

    pub(crate) fn on_done(mut self, hook: impl FnMut(&mut StepDone) + 'static) -> Watched {
        self.on_done = Box::new(hook);
        self
    }

    fn check(&self, step: &Step) {
        let mut writers = HashMap::new();
        let mut blocks: Vec<BlockId> = Vec::new();
        for row in &step.rows {
            blocks.extend(&row.table);
            let written = row.start / kv::BLOCK_TOKENS..=(row.start + row.input.count() - 1) / kv::BLOCK_TOKENS;
            for block in written.map(|i| row.table[i as usize]) {
                let other = writers.insert(block, row.seq);
                assert_eq!(other, None, "{:?} also writes {block:?} in {step:?}", row.seq);
            }
        }
        blocks.sort_unstable();
        blocks.dedup();
        assert!(blocks.len() as u32 <= self.inner.info().blocks, "{step:?}");
    }
}

impl Engine for Watched {
    fn info(&self) -> &EngineInfo {
        self.inner.info()
    }
    fn launch(&mut self, step: &Step) -> Result<(), EngineError> {
        self.check(step);
        (self.on_launch)(step)?;
        self.inner.launch(step)
    }
    fn finish(&mut self) -> Result<StepDone, EngineError> {
        let mut done = self.inner.finish()?;
        (self.on_done)(&mut done);
        Ok(done)
    }
    fn memory(&self) -> Memory {
        self.inner.memory()
    }
}

pub(crate) fn greedy(max_tokens: u32) -> Params {
    Params { temperature: 0.0, max_tokens: Some(max_tokens), ..Params::default() }
}

pub(crate) fn ask(prompt: &str, params: Params) -> Ask {
    Ask { id: format!("test {prompt:.20}"), prompt: Prompt::Text(prompt.into()), params, key: Key::default(), answer: "answer".into(), form: Form::default() }
}

/// An answer read to its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Whole {
    pub(crate) text: String,
    /// Tokens that the texts said stood behind them.
    pub(crate) reported: u32,
    pub(crate) seed: u64,
    pub(crate) finish: Finish,
    pub(crate) usage: Usage,
    pub(crate) timings: Timings,
}

pub(crate) async fn whole(mut answer: Answer) -> Result<Whole, Failure> {
    let (mut text, mut reported, mut began) = (String::new(), 0, None);
    patiently(async {
        loop {
            match answer.next().await.expect("a last word comes") {
                Event::Began { seed, .. } => assert_eq!(began.replace(seed), None, "began twice"),
                Event::Said { pieces, tokens, .. } => {
                    assert!(began.is_some() && !pieces.is_empty());
                    text.push_str(&dialects::whole(pieces).text);
                    reported += tokens;
                }
                Event::Done { finish, usage, timings, .. } => {
                    assert_eq!(answer.next().await, None);
                    let seed = began.expect("it began");
                    return Ok(Whole { text, reported, seed, finish, usage, timings });
                }
                Event::Failed(failure) => {
                    assert_eq!(answer.next().await, None);
                    return Err(failure);
                }
            }
        }
    })
    .await
}

/// What the model generates for a prompt of [`ask`], whatever else is running: ids, a final stop token included.
pub(crate) fn oracle(prompt: &str, params: &Params, seed: u64) -> Vec<u32> {
    let mut ids: Vec<u32> = prompt.bytes().map(u32::from).collect();
    let start = ids.len();
    for index in 0..params.max_tokens.unwrap() {
        let Params { temperature, top_p, top_k, min_p, .. } = *params;
        let banned = if index < params.min_tokens && !params.ignore_eos { vec![END] } else { vec![] };
        let draw = Draw { banned, ..Draw::new(Sampling { temperature, top_p, top_k, min_p, seed }, index) };
        let token = synthetic::next(&ids, &draw, VOCAB);
        ids.push(token);
        if token == END && !params.ignore_eos {
            break;
        }
    }
    ids.split_off(start)
}

/// The text of an answer that is cut after these ids: without the half of a character that may stand at its end.
pub(crate) fn cut(ids: &[u32]) -> String {
    let bytes: Vec<u8> = ids.iter().filter(|id| !text().is_special(**id)).flat_map(|id| text().token_bytes(*id).unwrap()).collect();
    let half = |tail: &[u8]| std::str::from_utf8(tail).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none());
    let is_half = (1..=3.min(bytes.len())).any(|n| half(&bytes[bytes.len() - n..]));
    let whole = text().decode(ids);
    if is_half { whole.strip_suffix(char::REPLACEMENT_CHARACTER).unwrap().to_owned() } else { whole }
}

/// [`whole`] must have been what the oracle says.
pub(crate) fn agrees(prompt: &str, params: &Params, got: &Whole) {
    let ids = oracle(prompt, params, got.seed);
    assert_eq!(got.usage.completion_tokens, ids.len() as u32, "{prompt:?}");
    let stopped = ids.last() == Some(&END) && !params.ignore_eos;
    let text = if stopped { text().decode(&ids[..ids.len() - 1]) } else { cut(&ids) };
    assert_eq!(got.text, text, "{prompt:?}");
    assert_eq!(got.finish, if stopped { Finish::Stop } else { Finish::Length });
    assert_eq!(got.usage.prompt_tokens, prompt.len() as u32);
    assert!(got.reported <= got.usage.completion_tokens);
}

/// Waits until no row, no waiting request, no step and no Request actor is left; then nothing but cached prefixes may hold blocks.
pub(crate) async fn empty(service: &Service) {
    let mut stats = service.watch();
    let idle = patiently(stats.wait_for(|s| {
        let used = s.kv.rows_bytes + s.kv.held_bytes;
        s.running + s.waiting + s.steps_in_flight == 0 && used == 0
    }));
    let kv = idle.await.unwrap().kv;
    assert_eq!(kv.free_bytes + kv.prefix_bytes, kv.budget_bytes);
    patiently(async {
        while service.requests() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
