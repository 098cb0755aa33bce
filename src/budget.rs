//! How many blocks: the byte budget of KV memory, given or worked out from what the machine has left.

use kv::budget::BudgetSpec;
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
}

/// Share of the memory left that `auto` may take; the rest is for whatever else runs on the machine.
const AUTO_SHARE: f64 = 0.8;

/// Blocks for a model whose weights are loaded. Says its terms in the log.
pub(crate) fn blocks(opened: &Opened, wanted: &Wanted, path: &Path) -> Result<u32, EngineError> {
    let bad = |reason: String| EngineError::Load { file: path.to_owned(), reason };
    let left = mlx::memory_left(opened.place()).map_err(|e| bad(format!("--kv-budget: {e}")))?;
    let workspace = opened.workspace_bytes(wanted.step_tokens, wanted.batch, wanted.context);
    let usable = left.saturating_sub(workspace);
    let block = opened.block_bytes();
    let full = u64::from(wanted.batch) * u64::from(wanted.context.div_ceil(kv::BLOCK_TOKENS));
    let (budget, why) = match wanted.spec {
        BudgetSpec::Bytes(b) if b > usable => {
            return Err(bad(format!("--kv-budget: {} is more than the {} that weights and workspace leave of this machine's memory", mb(b), mb(usable))));
        }
        BudgetSpec::Bytes(b) => (b, "as given"),
        BudgetSpec::Auto => {
            let share = (usable as f64 * AUTO_SHARE) as u64;
            if share < full * block { (share, "80 % of what is left") } else { (full * block, "all that a full batch at full context can use") }
        }
    };
    let blocks = (budget / block).min(u64::from(u32::MAX / kv::BLOCK_TOKENS / 4)) as u32;
    if blocks == 0 {
        return Err(bad(format!("--kv-budget: {} holds no block; one block of {} tokens takes {}", mb(budget), kv::BLOCK_TOKENS, mb(block))));
    }
    tracing::info!(
        "KV budget {} ({why}): {blocks} blocks of {} tokens. Weights {}, workspace {}, left of the machine {}",
        mb(u64::from(blocks) * block),
        kv::BLOCK_TOKENS,
        mb(opened.weight_bytes()),
        mb(workspace),
        mb(left),
    );
    Ok(blocks)
}

/// Bytes for people.
fn mb(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        1_000_000..10_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
