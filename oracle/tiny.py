"""Tiny models with random weights, one for each shape that a family can take, and the oracle's logits for them.

usage: tiny.py OUT_DIR [CASE ...] [--seed N]

Each case becomes OUT_DIR/CASE/{config.json, model.safetensors, golden.safetensors}. golden.safetensors holds, for a short and a
longer prompt (i = 0, 1): `ids_i` int32 [T]; `logits_i` float32 [T, vocab], every position of one solo prefill; `greedy_i`
int32 [16], the greedy continuation. Weights are drawn wide enough for the logits to spread, so that greedy ids are stable.
"""
import argparse
import importlib
import json
import os

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map_with_path
from mlx_lm.models.cache import make_prompt_cache

BASE = dict(
    hidden_size=64,
    num_hidden_layers=3,
    intermediate_size=128,
    num_attention_heads=4,
    num_key_value_heads=2,
    rms_norm_eps=1e-5,
    vocab_size=512,
    rope_theta=10000.0,
    tie_word_embeddings=True,
    max_position_embeddings=2048,
)
LLAMA3_ROPE = dict(
    rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64
)
Q4 = dict(group_size=32, bits=4)
# Quantised layers that do not have the model's default bits.
MIXED = {"model.embed_tokens": 8, "model.layers.0.self_attn.q_proj": 8, "model.layers.1.mlp.down_proj": 8}
# name: (family, what its config adds; `_quant` and `_override` are for us and stay out of it)
CASES = {
    "llama_tied": ("llama", {}),
    "llama_untied_headdim": ("llama", dict(tie_word_embeddings=False, head_dim=32)),
    "llama3_rope": ("llama", dict(rope_scaling=LLAMA3_ROPE)),
    "llama_linear_rope": ("llama", dict(rope_scaling=dict(type="linear", factor=2.0))),
    "llama_bias": ("llama", dict(attention_bias=True, mlp_bias=True)),
    "llama_q4_g32": ("llama", dict(_quant=Q4)),
    "llama_q4_mixed": ("llama", dict(_quant=Q4, _override=MIXED)),
    "qwen2_bias": ("qwen2", {}),
    "qwen3_qknorm": ("qwen3", dict(head_dim=32, tie_word_embeddings=False)),
}
# The longer prompt crosses two borders of 32-token blocks and ends inside a third.
PROMPT_TOKENS = (5, 83)
GREEDY_TOKENS = 16


def build(family, extra, seed):
    """The case's config (a dict, as config.json has it) and its model, weights drawn and evaluated."""
    extra = dict(extra)
    quant, override = extra.pop("_quant", None), extra.pop("_override", {})
    config = {**BASE, "model_type": family, **extra}
    module = importlib.import_module(f"mlx_lm.models.{family}")
    model = module.Model(module.ModelArgs.from_dict(config))
    mx.random.seed(seed)

    def draw(path, p):
        if "norm" in path:
            return 1.0 + 0.1 * mx.random.normal(p.shape)
        scale = 0.6 / p.shape[-1] ** 0.5 if p.ndim > 1 else 0.1
        return mx.random.normal(p.shape) * scale * (4.0 if "embed" in path else 1.5)

    model.update(tree_map_with_path(draw, model.parameters()))
    if quant:

        def pick(path, module):
            if not hasattr(module, "to_quantized"):
                return False
            return dict(quant, bits=override.get(path, quant["bits"]))

        nn.quantize(model, class_predicate=pick)
        config["quantization"] = dict(quant, **{path: dict(quant, bits=bits) for path, bits in override.items()})
    mx.eval(model.parameters())
    return config, model


def golden(model, vocab, seed):
    """What the oracle says: prompts, logits of every position, greedy continuations."""
    out = {}
    for i, tokens in enumerate(PROMPT_TOKENS):
        ids = mx.random.randint(0, vocab, (tokens,), key=mx.random.key(seed + 100 + i))
        logits = model(ids[None], cache=make_prompt_cache(model))[0].astype(mx.float32)
        cache, x, greedy = make_prompt_cache(model), ids[None], []
        for _ in range(GREEDY_TOKENS):
            greedy.append(mx.argmax(model(x, cache=cache)[0, -1]).item())
            x = mx.array([greedy[-1:]])
        out |= {f"ids_{i}": ids, f"logits_{i}": logits, f"greedy_{i}": mx.array(greedy)}
    mx.eval(out)
    return out


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("out")
    args.add_argument("case", nargs="*", help="all unless named: " + " ".join(CASES))
    args.add_argument("--seed", type=int, default=7)
    args = args.parse_args()
    if unknown := set(args.case) - CASES.keys():
        raise SystemExit(f"no such case: {' '.join(sorted(unknown))}; there are {' '.join(CASES)}")
    for name in args.case or CASES:
        config, model = build(*CASES[name], args.seed)
        folder = os.path.join(args.out, name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(config, f, indent=1)
        weights = dict(tree_flatten(model.parameters()))
        mx.save_safetensors(os.path.join(folder, "model.safetensors"), weights, {"format": "mlx"})
        gold = golden(model, config["vocab_size"], args.seed)
        mx.save_safetensors(os.path.join(folder, "golden.safetensors"), gold)
        # A narrow gap between the two best logits would make greedy ids a coin toss.
        top = mx.sort(gold["logits_1"][-1])
        spread, gap = (top[-1] - top[0]).item(), (top[-1] - top[-2]).item()
        print(f"{name}: spread {spread:.2f}, gap {gap:.3f}, {sum(w.nbytes for w in weights.values())} bytes of weights")


if __name__ == "__main__":
    main()
