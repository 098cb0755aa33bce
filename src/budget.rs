//! How many blocks: the byte budget of KV memory, given or worked out from what the machine has left.

use crate::bytes::mb;
use kv::Geometry;
use kv::budget::BudgetSpec;
use kv::fit::{AUTO_PERCENT, Budget, Terms, Unfit, Why};
use models::config::Config;
use models::engine::EngineError;
use models::mlx;
use models::mlx_engine::Opened;
use std::path::Path;

/// What the budget is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) spec: BudgetSpec,
    pub(crate) batch: u32,
    pub(crate) prefill_chunk: u32,
    /// Steps in flight.
    pub(crate) depth: u32,
    /// Positions a row may have.
    pub(crate) context: u32,
    /// Whether decode rows gather their keys.
    pub(crate) gathers: bool,
}

impl Wanted {
    /// The sum's terms for a model with so many bytes left beside its weights.
    pub(crate) fn terms<'a>(&self, config: &Config, geometry: &'a Geometry, left: u64) -> Terms<'a> {
        let Wanted { spec, batch, prefill_chunk, depth, context, gathers } = *self;
        let workspace = config.workspace_bytes(prefill_chunk + batch, batch, context, gathers);
        Terms { spec, left, workspace, geometry, batch, context, ahead: depth * prefill_chunk }
    }
}

/// Blocks for a model whose weights are loaded. Says its terms in the log.
pub(crate) fn blocks(opened: &Opened, wanted: &Wanted, path: &Path) -> Result<u32, EngineError> {
    let bad = |reason: String| EngineError::Load { file: path.to_owned(), reason: format!("--kv-budget: {reason}") };
    let left = mlx::memory_left(opened.place()).map_err(bad)?;
    let geometry = opened.geometry();
    let terms = wanted.terms(opened.config(), &geometry, left);
    let Budget { blocks, why } = terms.budget().map_err(|unfit| bad(explain(unfit, &terms)))?;
    tracing::info!(
        "KV budget {} ({}): {blocks} blocks of {} tokens at {}{}. Weights {}, workspace {}, left of the machine {}",
        mb(terms.pool_bytes(blocks)),
        reason(why),
        geometry.block_tokens(),
        mb(geometry.block_bytes()),
        more(&terms).into_iter().map(|(name, text)| format!("; {name}: {text}")).collect::<String>(),
        mb(opened.weight_bytes()),
        mb(terms.workspace),
        mb(left),
    );
    Ok(blocks)
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
pub(crate) fn explain(unfit: Unfit, terms: &Terms) -> String {
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
