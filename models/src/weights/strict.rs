//! Which tensors a model of a given config uses, so that a file with others in it is refused: it is of another model.
//!
//! mlx-lm loads strictly, too (`load_weights(strict=True)` in its `utils.py`), after dropping what its families' `sanitize` drops.

use crate::config::{Config, Family};
use crate::plain::one_line;

/// Whether the model reads `{path}.{leaf}`, or may do without it. `has` tells which tensors there are.
pub(super) fn known(c: &Config, path: &str, leaf: &str, has: &dyn Fn(&str, &str) -> bool) -> bool {
    let Some((part, bias)) = module(c, path) else {
        // Old converters wrote out the rotary frequencies, which follow from the config.
        return leaf == "inv_freq" && path.ends_with(".rotary_emb");
    };
    match (part, leaf) {
        // What is left of a head that is the embedding.
        (Part::Head, "weight") => true,
        (Part::Head, _) if c.tied.unwrap_or(!has(path, "weight")) => false,
        (_, "weight") => true,
        (Part::Norm, _) => false,
        (_, "bias") => bias,
        (_, "scales" | "biases") => has(path, "scales"),
        _ => false,
    }
}

enum Part {
    Norm,
    Matrix,
    Head,
}

/// What the module at `path` is, and whether it has a bias; None if the model has none there.
fn module(c: &Config, path: &str) -> Option<(Part, bool)> {
    match path {
        "model.embed_tokens" => return Some((Part::Matrix, false)),
        "model.norm" => return Some((Part::Norm, false)),
        "lm_head" => return Some((Part::Head, false)),
        _ => {}
    }
    let (layer, name) = path.strip_prefix("model.layers.")?.split_once('.')?;
    // Written the one way in which it is looked for.
    layer.parse::<usize>().ok().filter(|n| *n < c.layers && n.to_string() == layer)?;
    Some(match name {
        "input_layernorm" | "post_attention_layernorm" => (Part::Norm, false),
        "self_attn.q_norm" | "self_attn.k_norm" if c.family == Family::Qwen3 => (Part::Norm, false),
        "self_attn.q_proj" | "self_attn.k_proj" | "self_attn.v_proj" => (Part::Matrix, c.qkv_bias),
        "self_attn.o_proj" => (Part::Matrix, c.o_bias),
        "mlp.gate_proj" | "mlp.up_proj" | "mlp.down_proj" => (Part::Matrix, c.mlp_bias),
        _ => return None,
    })
}

/// What to say when `count` tensors are left over.
pub(super) fn left_over(first: &str, count: usize, config: &str) -> String {
    let tensors = if count == 1 { "a tensor".to_owned() } else { format!("{count} tensors") };
    one_line(&format!("has {tensors} that the model of {config} does not use; the first is {first}"))
}
