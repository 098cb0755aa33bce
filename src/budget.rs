//! How many blocks: the byte budget of KV memory, given or worked out from what the machine has left.

use crate::Placing;
use crate::bytes::mb;
use kv::Geometry;
use kv::budget::BudgetSpec;
use kv::fit::{AUTO_PERCENT, Budget, Terms, Unfit, Why};
use models::config::Config;
use models::engine::EngineError;
use models::measure::Measured;
use models::mlx::{self, Place};
use models::mlx_engine::{OpenOptions, Opened};
use models::workspace::Heaviest;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Options that decide how much memory there is for rows, and how much they take.
#[derive(clap::Args, Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Sizing {
    /// Rows that are decoded together
    #[arg(long, alias = "decode-concurrency", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub(crate) batch: u32,
    /// Bytes for K and V of all rows and cached prefixes together, such as 512MB or 8GB, or auto
    #[arg(long, default_value = "auto", value_parser = kv::budget::parse)]
    kv_budget: BudgetSpec,
    /// Tokens of a prompt that are computed in one step, between everybody's next tokens
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) prefill_chunk: u32,
    /// Positions a request may have, prompt and answer together; what the model was made for if not given
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    context: Option<u32>,
    /// Steps in flight
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    pub(crate) depth: u32,
    #[command(flatten)]
    placing: Placing,
}

impl Sizing {
    pub(crate) fn open(&self, path: PathBuf, name: Option<String>) -> OpenOptions {
        OpenOptions { path, name, device: self.placing.device(), dtype: self.placing.dtype() }
    }

    /// Tokens that a step computes at most: a chunk beside a full batch.
    pub(crate) fn step_tokens(&self) -> u32 {
        self.prefill_chunk + self.batch
    }

    /// Positions that a row may have. More than the model was made for is refused by [`measured`].
    pub(crate) fn context_of(&self, config: &Config) -> u32 {
        (config.context as u32).min(self.context.unwrap_or(u32::MAX))
    }

    /// The sum's terms for a model with so many bytes left beside its weights, of which a step takes `workspace`.
    fn terms<'a>(&self, config: &Config, geometry: &'a Geometry, left: u64, workspace: u64) -> Terms<'a> {
        let (batch, context) = (self.batch, self.context_of(config));
        Terms { spec: self.kv_budget, left, workspace, geometry, batch, context, ahead: self.depth * self.prefill_chunk }
    }
}

fn bad(path: &Path, reason: &str) -> EngineError {
    EngineError::Load { file: path.to_owned(), reason: format!("--kv-budget: {reason}") }
}

/// What the budget will be for a model that is not loaded.
pub(crate) fn measured<'a>(measured: &'a Measured, sizing: &Sizing, path: &Path) -> Result<(Terms<'a>, Budget), EngineError> {
    let made_for = measured.config.context;
    if let Some(asked) = sizing.context.filter(|asked| *asked as usize > made_for) {
        let reason = format!("--context {asked}: the model was made for {made_for} positions");
        return Err(EngineError::Load { file: path.to_owned(), reason });
    }
    let memory = mlx::memory_left(measured.place).map_err(|e| bad(path, &e))?;
    // What serving finds out when it holds the kernel against MLX's own attention.
    let gathers = measured.place == Place::Cpu;
    let workspace = measured.config.workspace_bytes(sizing.step_tokens(), sizing.batch, sizing.context_of(&measured.config), gathers);
    let terms = sizing.terms(&measured.config, &measured.geometry, memory.saturating_sub(measured.weight_bytes), workspace);
    let budget = terms.budget().map_err(|unfit| bad(path, &explain(unfit, &terms)))?;
    Ok((terms, budget))
}

/// Blocks for a model whose weights are loaded, and the model again. Says its terms in the log.
///
/// On a GPU the heaviest step is run to see what it takes. On the CPU that would take a minute, and it is worked out; what MLX
/// frees goes back to the system there, where others can have it.
pub(crate) fn blocks(mut opened: Opened, sizing: &Sizing, path: &Path) -> Result<(Opened, u32), EngineError> {
    let Sizing { batch: rows, prefill_chunk: chunk, depth, .. } = *sizing;
    let context = sizing.context_of(opened.config());
    let mut workspace = opened.config().workspace_bytes(sizing.step_tokens(), rows, context, opened.gathers());
    if opened.place() == Place::Gpu {
        (opened, workspace) = opened.workspace(&Heaviest { rows, chunk, depth, context })?;
    }
    let left = mlx::memory_left(opened.place()).map_err(|e| bad(path, &e))?;
    let geometry = opened.geometry();
    let terms = sizing.terms(opened.config(), &geometry, left, workspace);
    let Budget { blocks, why } = terms.budget().map_err(|unfit| bad(path, &explain(unfit, &terms)))?;
    tracing::info!(
        "KV budget {} ({}): {blocks} blocks of {} tokens at {}{}. Weights {}, workspace {}{}, left of the machine {}",
        mb(terms.pool_bytes(blocks)),
        reason(why),
        geometry.block_tokens(),
        mb(geometry.block_bytes()),
        more(&terms).into_iter().map(|(name, text)| format!("; {name}: {text}")).collect::<String>(),
        mb(opened.weight_bytes()),
        mb(terms.workspace),
        if opened.place() == Place::Gpu { " (measured)" } else { "" },
        mb(left),
    );
    Ok((opened, blocks))
}

/// Terms that only some models have, each with its name, for people.
pub(crate) fn more(terms: &Terms) -> Vec<(&'static str, String)> {
    let geometry = terms.geometry;
    let window = terms.window().map(|window| {
        let blocks = window.blocks_max(geometry.block_tokens());
        ("window", format!("{} positions in every layer, so that a row holds {blocks} blocks at most", window.tokens))
    });
    let state = (geometry.state_bytes() > 0).then(|| {
        let (all, each) = (mb(terms.states_bytes()), mb(geometry.state_bytes()));
        ("state", format!("{all} of the budget, {each} for each of {} rows", terms.batch))
    });
    window.into_iter().chain(state).collect()
}

/// Why there is no budget, for people.
fn explain(unfit: Unfit, terms: &Terms) -> String {
    match unfit {
        Unfit::MoreThanUsable { asked, usable } => {
            format!("{} is more than the {} that weights and workspace leave of this machine's memory", mb(asked), mb(usable))
        }
        Unfit::NoBlock { budget } => {
            let (tokens, block) = (terms.geometry.block_tokens(), mb(terms.geometry.block_bytes()));
            let states =
                if terms.states_bytes() > 0 { format!(", after {} for the states of {} rows", mb(terms.states_bytes()), terms.batch) } else { String::new() };
            format!("{} holds no block: a block of {tokens} tokens takes {block}, and so does the one that stays empty{states}", mb(budget))
        }
    }
}

/// What decided the budget, for people.
pub(crate) fn reason(why: Why) -> String {
    match why {
        Why::Given => "as given".to_owned(),
        Why::Share => format!("{AUTO_PERCENT} % of what is left"),
        Why::FullBatch => "all that a full batch at full context can use".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kv::{Elements, Layer, Span};

    fn geometry(spans: &[Span], state_bytes: u64) -> Geometry {
        let layer = |span: &Span| Layer { span: *span, kv_heads: 2, head_dim: 64, elements: Elements::Dense { bytes: 2 } };
        Geometry::new(spans.iter().map(layer).collect(), 32).expect("a layer with K and V").with_state(state_bytes)
    }

    #[test]
    fn a_models_own_terms_are_said() {
        let window = ("window", "4096 positions in every layer, so that a row holds 162 blocks at most".to_owned());
        let state = ("state", "16 MB of the budget, 1 MB for each of 16 rows".to_owned());
        let rows = [
            (geometry(&[Span::Full], 0), vec![]),
            (geometry(&[Span::Full, Span::Window(4096)], 0), vec![]),
            (geometry(&[Span::Window(4096)], 0), vec![window.clone()]),
            (geometry(&[Span::Full], 1_000_000), vec![state.clone()]),
            (geometry(&[Span::Window(4096)], 1_000_000), vec![window, state]),
        ];
        for (geometry, expect) in rows {
            let terms = Terms { spec: BudgetSpec::Auto, left: 0, workspace: 0, geometry: &geometry, batch: 16, context: 32_768, ahead: 1024 };
            assert_eq!(more(&terms), expect);
        }
    }

    #[test]
    fn a_budget_without_a_block_says_what_one_takes() {
        for (state_bytes, end) in [(0, "stays empty"), (1_000_000, "stays empty, after 16 MB for the states of 16 rows")] {
            let geometry = geometry(&[Span::Full], state_bytes);
            let terms = Terms { spec: BudgetSpec::Auto, left: 0, workspace: 0, geometry: &geometry, batch: 16, context: 4096, ahead: 1024 };
            let said = explain(Unfit::NoBlock { budget: 1000 }, &terms);
            assert!(said.starts_with("1.0 KB holds no block: a block of 32 tokens takes 16.4 KB") && said.ends_with(end), "{said}");
        }
    }
}
