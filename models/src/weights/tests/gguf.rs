//! GGUF files: metadata as a config, and tensors that are left over.

use crate::config::{Config, Scaling};
use crate::gguf::File;
use crate::gguf::writer::Writer;
use crate::weights::GgufWeights;
use std::sync::Arc;

const F32: u32 = 0;

/// A key's value in place of the usual one.
type Change<'a> = (&'a str, fn(Writer, &str) -> Writer);

/// The least that is a model, with other values for some keys; `tensors` are vectors of F32 besides its own.
fn opened(changes: &[Change], tensors: &[(&str, &[f32])]) -> Result<Config, String> {
    let usual: [Change; 7] = [
        ("general.architecture", |w, k| w.str(k, "llama")),
        ("llama.block_count", |w, k| w.u32(k, 1)),
        ("llama.embedding_length", |w, k| w.u32(k, 8)),
        ("llama.feed_forward_length", |w, k| w.u32(k, 6)),
        ("llama.attention.head_count", |w, k| w.u32(k, 2)),
        ("llama.attention.layer_norm_rms_epsilon", |w, k| float(w, k, 1e-5)),
        ("llama.context_length", |w, k| w.u32(k, 128)),
    ];
    let mut w = Writer::default();
    for (key, value) in usual.iter().filter(|(key, _)| !changes.iter().any(|(other, _)| key == other)).chain(changes) {
        w = value(w, key);
    }
    let matrix = |w: Writer, name: &str, rows: u64, cols: u64| w.tensor(name, &[cols, rows], F32, &vec![0; (rows * cols * 4) as usize]);
    for (name, rows, cols) in [("token_embd", 5, 8), ("blk.0.attn_q", 8, 8), ("blk.0.attn_k", 8, 8), ("blk.0.ffn_up", 6, 8)] {
        w = matrix(w, &format!("{name}.weight"), rows, cols);
    }
    for (name, values) in tensors {
        w = w.tensor(name, &[values.len() as u64], F32, &values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
    }
    let (_dir, path) = w.save();
    let result = GgufWeights::open(Arc::new(File::open(&path).unwrap()));
    let shown = |e: crate::engine::EngineError| e.to_string().strip_prefix(&format!("{}: ", path.display())).unwrap().to_owned();
    result.map(|(config, _)| config).map_err(shown)
}

fn float(w: Writer, key: &str, value: f32) -> Writer {
    w.raw(key, 6, &value.to_le_bytes())
}

#[test]
fn metadata_that_cannot_be_served_is_named_as_the_file_has_it() {
    let cases: [(Change, &str); 20] = [
        (("general.architecture", |w, k| w.str(k, "mamba")), "general.architecture: \"mamba\" is an unknown architecture; served from GGUF is llama"),
        (("split.count", |w, k| w.u32(k, 3)), "split.count: is 3"),
        (("llama.embedding_length", |w, k| w.u32(k, 0)), "llama.embedding_length: 0 is not a whole number of 1 to"),
        (("llama.block_count", |w, k| w.u32(k, u32::MAX)), "llama.block_count: 4294967295 is not a whole number of 1 to 10000"),
        (("llama.block_count", |w, k| w.i32s(k, &[1])), "llama.block_count: is array of i32, must be an integer"),
        (("llama.attention.head_count", |w, k| w.u32(k, 0)), "llama.attention.head_count: 0 is not"),
        (("llama.attention.head_count", |w, k| w.u32(k, 9)), "llama.attention.key_length: 0 is not an even number"),
        (("llama.attention.head_count_kv", |w, k| w.u32(k, 3)), "llama.attention.head_count_kv: 3 does not divide llama.attention.head_count, 2"),
        (("llama.context_length", |w, k| w.u32(k, u32::MAX)), "llama.context_length: 4294967295 is not"),
        (("llama.attention.layer_norm_rms_epsilon", |w, k| float(w, k, f32::NAN)), "llama.attention.layer_norm_rms_epsilon: is NaN, must be a finite number"),
        (("llama.attention.layer_norm_rms_epsilon", |w, k| float(w, k, 0.0)), "llama.attention.layer_norm_rms_epsilon: must be above 0"),
        (("llama.rope.freq_base", |w, k| float(w, k, f32::INFINITY)), "llama.rope.freq_base: is inf, must be a finite number"),
        (("llama.rope.freq_base", |w, k| float(w, k, 1.0)), "llama.rope.freq_base: 1 is not a number above 1"),
        (("llama.rope.dimension_count", |w, k| w.u32(k, 2)), "llama.rope.dimension_count: is 2: a whole head is rotated here, 4 elements"),
        (("llama.rope.scaling.type", |w, k| w.str(k, "longrope")), "llama.rope.scaling.type: \"longrope\" is not served"),
        (("llama.rope.scaling.type", |w, k| w.str(k, "yarn")), "llama.rope.scaling.factor: missing"),
        (("llama.rope.scaling.factor", |w, k| float(w, k, -2.0)), "llama.rope.scaling.factor: -2.0 is not a number of 0 or more"),
        (("llama.rope.scaling.factor", |w, k| float(w, k, f32::NAN)), "llama.rope.scaling.factor: is NaN"),
        (
            ("tokenizer.ggml.tokens", |w, k| w.strings(k, &["a", "b", "c", "d", "e", "f"])),
            "tokenizer.ggml.tokens: has 6 entries, but token_embd.weight has 5 rows",
        ),
        (("tokenizer.ggml.tokens", |w, k| w.u32(k, 1)), "tokenizer.ggml.tokens: is u32, must be an array of strings"),
    ];
    for (change, want) in cases {
        let error = opened(&[change], &[]).unwrap_err();
        assert!(error.starts_with(want), "{error} should begin with {want}");
    }
}

#[test]
fn scaling_is_honoured_or_refused() {
    let scaling = |changes: &[Change]| opened(changes, &[]).unwrap().rope.scaling;
    let factor: Change = ("llama.rope.scaling.factor", |w, k| float(w, k, 4.0));
    assert_eq!(scaling(&[]), Scaling::None);
    assert_eq!(scaling(&[factor]), Scaling::Linear { factor: 4.0 });
    assert_eq!(scaling(&[("llama.rope.scale_linear", |w, k| float(w, k, 2.0))]), Scaling::Linear { factor: 2.0 });
    assert_eq!(scaling(&[("llama.rope.scaling.factor", |w, k| float(w, k, 0.0))]), Scaling::None);
    assert_eq!(scaling(&[factor, ("llama.rope.scaling.type", |w, k| w.str(k, "none"))]), Scaling::None);

    const FACTORS: &str = "rope_freqs.weight";
    assert_eq!(opened(&[], &[(FACTORS, &[1.0, 8.0])]).unwrap().rope.scaling, Scaling::Factors(vec![1.0, 8.0]));
    for (values, want) in [
        (&[1.0, 0.0][..], "tensor rope_freqs.weight holds 0: numbers above 0 are needed"),
        (&[1.0, -1.0], "tensor rope_freqs.weight holds -1"),
        (&[f32::NAN, 1.0], "tensor rope_freqs.weight holds NaN"),
        (&[1.0], "tensor rope_freqs.weight is F32 of shape [1]: F32 of shape [2] is needed"),
    ] {
        let error = opened(&[], &[(FACTORS, values)]).unwrap_err();
        assert!(error.starts_with(want), "{error} should begin with {want}");
    }
    let both = opened(&[factor], &[(FACTORS, &[1.0, 8.0])]).unwrap_err();
    assert_eq!(both, "tensor rope_freqs.weight is there besides llama.rope.scaling: one of the two is served, not both");
}

#[test]
fn tensors_that_the_model_does_not_use_are_refused() {
    for name in
        ["blk.1.attn_norm.weight", "blk.0.attn_norm.bias", "blk.0.ffn_gate_exps.weight", "blk.0.attn_q.scale", "rope_factors_long.weight", "x", "output.bias"]
    {
        let error = opened(&[], &[(name, &[0.0])]).unwrap_err();
        assert_eq!(error, format!("has a tensor that the model of the file's metadata does not use; the first is {name}"));
    }
    for name in ["blk.0.attn_norm.weight", "blk.0.attn_q.bias", "output.weight"] {
        opened(&[], &[(name, &[0.0])]).unwrap();
    }
}
