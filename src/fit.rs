//! `coxswain fit`: what a model would take of this machine, and how many rows would fit beside it. Loads nothing.

use crate::budget::{self, Sizing};
use crate::bytes::mb;
use crate::model;
use kv::fit::{Budget, Terms};
use models::measure::Measured;
use models::mlx::Place;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder in MLX's or Hugging Face's layout, or a GGUF file; SmolLM2-135M-Instruct if not given
    model: Option<PathBuf>,
    #[command(flatten)]
    sizing: Sizing,
}

/// Lengths that people ask about; the model's own comes after those below it.
const LENGTHS: [u32; 4] = [512, 2048, 8192, 32_768];

/// The whole answer, or one line that says what is wrong.
pub(crate) fn run(args: &Args) -> Result<String, String> {
    let path = model::path(args.model.as_deref(), "MODEL")?;
    // Fails where `serve` would.
    model::text(&path)?;
    let measured = Measured::open(&args.sizing.open(path.clone(), None)).map_err(|e| e.to_string())?;
    let made_for = measured.config.context as u32;
    let (terms, budget) = budget::measured(&measured, &args.sizing, &path).map_err(|e| e.to_string())?;
    let memory = terms.left + measured.weight_bytes;
    let head = format!("model      {}\n", path.display());
    Ok(head + &sums(&measured, memory, &terms, budget) + &table(&terms, budget.blocks, made_for))
}

fn sums(measured: &Measured, memory: u64, terms: &Terms, budget: Budget) -> String {
    let both = |bytes: u64| format!("{} ({bytes} bytes)", mb(bytes));
    let place = if measured.place == Place::Gpu { "GPU" } else { "CPU" };
    let float = format!("{:?}", measured.float).to_lowercase();
    let geometry = terms.geometry;
    let mut rows = vec![
        ("weights", format!("{}, computed in {float} on the {place}", both(measured.weight_bytes))),
        ("KV", format!("{} a token", both(geometry.token_bytes()))),
        ("block", format!("{} of {} tokens", both(geometry.block_bytes()), geometry.block_tokens())),
        ("usable", format!("{} = memory {} - weights {} - workspace {}", mb(terms.usable()), mb(memory), mb(measured.weight_bytes), mb(terms.workspace))),
        ("KV budget", format!("{}, {} blocks: {}", both(terms.pool_bytes(budget.blocks)), budget.blocks, budget::reason(budget.why))),
    ];
    rows.extend(budget::more(terms));
    rows.iter().map(|(name, text)| format!("{name:<11}{text}\n")).collect()
}

/// Rows at several lengths, up to what the model was made for.
fn table(terms: &Terms, blocks: u32, made_for: u32) -> String {
    let mut text = format!("\n{:>9}  {:>12}  {:>4}  bound by\n", "positions", "blocks a row", "rows");
    for length in LENGTHS.into_iter().filter(|length| *length < made_for).chain([made_for]) {
        let (rows, bound) = terms.rows(blocks, length);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{length:>9}  {:>12}  {rows:>4}  {}", terms.blocks_at_once(length), bound.name());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kv::budget::BudgetSpec;
    use kv::{Elements, Geometry, Layer, Span};

    fn geometry(span: Span) -> Geometry {
        Geometry::new(vec![Layer { span, kv_heads: 1, head_dim: 2, elements: Elements::Dense { bytes: 2 } }], kv::BLOCK_TOKENS).expect("a layer with K and V")
    }

    fn terms(geometry: &Geometry) -> Terms<'_> {
        Terms { spec: BudgetSpec::Auto, left: 0, workspace: 0, geometry, batch: 16, context: 4096, ahead: 1024 }
    }

    #[test]
    fn the_table_goes_up_to_what_the_model_was_made_for() {
        let geometry = geometry(Span::Full);
        let expect = "
positions  blocks a row  rows  bound by
      512            16    16  batch
     2048            64     4  budget
     8192           256     0  context
";
        assert_eq!(table(&terms(&geometry), 256, 8192), expect);
        assert_eq!(table(&terms(&geometry), 256, 300).lines().last(), Some("      300            10    16  batch"));
    }

    #[test]
    fn a_row_takes_no_more_than_its_window() {
        let geometry = geometry(Span::Window(256));
        let expect = "
positions  blocks a row  rows  bound by
      512            16    16  batch
     2048            42     6  budget
     4096            42     6  budget
";
        assert_eq!(table(&terms(&geometry), 256, 4096), expect);
    }
}
