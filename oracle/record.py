"""A folder for `coxswain check`: a model made dense in one type, and what mlx-lm says of it, on this machine's device.

usage: record.py MODEL_DIR OUT_DIR [--dtype bfloat16] [--golden golden_smollm2_f32.json] [--prompts 6] [--greedy 16]

MODEL_DIR is in MLX's layout, quantised or not; prompts are the ids that a recording of golden.py has, so that no tokenizer is needed.
"""
import argparse
import importlib
import json
import os

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache


def dense(folder, config, dtype):
    """The weights as one type, whatever they are stored in."""
    stored = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            stored |= mx.load(os.path.join(folder, name))
    quant, out = config.pop("quantization", {}), {}
    config.pop("quantization_config", None)
    for name, value in stored.items():
        path, _, part = name.rpartition(".")
        if part in ("scales", "biases"):
            continue
        if f"{path}.scales" in stored:
            own = quant.get(path, quant)
            scales, biases = (stored[f"{path}.{p}"].astype(mx.float32) for p in ("scales", "biases"))
            value = mx.dequantize(value, scales, biases, own.get("group_size", quant["group_size"]), own["bits"])
        out[name] = value.astype(dtype)
    mx.eval(out)
    return out


def golden(model, exact, prompts, tokens):
    """What the model says, and beside it, if it is of 16 bits, what its weights give in f32: how far the oracle itself is from that."""
    out = {}
    for i, ids in enumerate(prompts):
        x, cache, greedy = mx.array([ids]), make_prompt_cache(model), []
        logits = model(x, cache=cache)[0].astype(mx.float32)
        best = logits[-1]
        for _ in range(tokens):
            greedy.append(mx.argmax(best).item())
            best = model(mx.array([greedy[-1:]]), cache=cache)[0, -1]
        if exact is not None:
            out[f"exact_{i}"] = exact(x, cache=make_prompt_cache(exact))[0].astype(mx.float32)
        out |= {f"ids_{i}": mx.array(ids), f"logits_{i}": logits, f"greedy_{i}": mx.array(greedy)}
        mx.eval(out)
    return out


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("model")
    args.add_argument("out")
    args.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16", "float16"])
    args.add_argument("--golden", default=os.path.join(here, "golden_smollm2_f32.json"))
    args.add_argument("--prompts", type=int, default=6)
    args.add_argument("--greedy", type=int, default=16)
    args = args.parse_args()
    with open(os.path.join(args.model, "config.json")) as f:
        config = json.load(f)
    with open(args.golden) as f:
        prompts = [record["prompt_ids"] for record in json.load(f)][: args.prompts]
    weights = dense(args.model, config, getattr(mx, args.dtype))
    module = importlib.import_module("mlx_lm.models." + config["model_type"])

    def loaded(dtype):
        model = module.Model(module.ModelArgs.from_dict(config))
        model.load_weights([(name, value.astype(dtype)) for name, value in weights.items()])
        return model

    model = loaded(getattr(mx, args.dtype))
    exact = loaded(mx.float32) if args.dtype != "float32" else None
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
    mx.save_safetensors(os.path.join(args.out, "model.safetensors"), dict(tree_flatten(model.parameters())), {"format": "mlx"})
    mx.save_safetensors(os.path.join(args.out, "golden.safetensors"), golden(model, exact, prompts, args.greedy))
    print(f"{args.out}: {len(prompts)} prompts of {min(map(len, prompts))} to {max(map(len, prompts))} tokens, {args.dtype}, on {mx.default_device()}")


if __name__ == "__main__":
    main()
