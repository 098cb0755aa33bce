//! How many blocks: the byte budget of KV memory, given or worked out from what the machine has left.

use crate::bytes::mb;
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
    pub(crate) step_tokens: u32,
    /// Positions a row may have.
    pub(crate) context: u32,
    /// Whether decode rows gather their keys.
    pub(crate) gathers: bool,
}

impl Wanted {
    /// The sum's terms for a model with so many bytes left beside its weights.
    pub(crate) fn terms(&self, config: &Config, block_bytes: u64, left: u64) -> Terms {
        let Wanted { spec, batch, step_tokens, context, gathers } = *self;
        let workspace = config.workspace_bytes(step_tokens, batch, context, gathers);
        Terms { spec, left, workspace, block_bytes, block_tokens: kv::BLOCK_TOKENS, batch, context }
    }
}

/// Blocks for a model whose weights are loaded. Says its terms in the log.
pub(crate) fn blocks(opened: &Opened, wanted: &Wanted, path: &Path) -> Result<u32, EngineError> {
    let bad = |reason: String| EngineError::Load { file: path.to_owned(), reason: format!("--kv-budget: {reason}") };
    let left = mlx::memory_left(opened.place()).map_err(bad)?;
    let terms = wanted.terms(opened.config(), opened.block_bytes(), left);
    let Budget { blocks, why } = terms.budget().map_err(|unfit| bad(explain(unfit, &terms)))?;
    tracing::info!(
        "KV budget {} ({}): {blocks} blocks of {} tokens. Weights {}, workspace {}, left of the machine {}",
        mb(u64::from(blocks) * terms.block_bytes),
        reason(why),
        kv::BLOCK_TOKENS,
        mb(opened.weight_bytes()),
        mb(terms.workspace),
        mb(left),
    );
    Ok(blocks)
}

/// Why there is no budget, for people.
pub(crate) fn explain(unfit: Unfit, terms: &Terms) -> String {
    match unfit {
        Unfit::MoreThanUsable { asked, usable } => {
            format!("{} is more than the {} that weights and workspace leave of this machine's memory", mb(asked), mb(usable))
        }
        Unfit::NoBlock { budget } => format!("{} holds no block; one block of {} tokens takes {}", mb(budget), terms.block_tokens, mb(terms.block_bytes)),
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
