"""Greedy continuations by mlx-lm, the oracle of tier L1.

usage: golden.py MODEL_DIR PROMPTS.json OUT.json [--max-tokens 32]      make them
       golden.py MODEL_DIR PROMPTS.json GOLDEN.json --check             make them again and compare with GOLDEN.json

PROMPTS.json is a list of strings (one user turn each) or of message lists. Each record keeps the prompt's ids, the answer's,
the smallest gap between the two best logits on the way (ids can be compared only while that gap is wider than the dtype's
noise), and the first step's top 20.
"""
import argparse
import json

import mlx.core as mx
from mlx_lm import load
from mlx_lm.models.cache import make_prompt_cache

# f32 on another BLAS moves a logit by less than this.
NOISE = 1e-2


def record(model, tokenizer, prompt, tokens_max):
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    cache = make_prompt_cache(model)
    x, out, gap, first = mx.array([ids]), [], float("inf"), None
    for _ in range(tokens_max):
        logits = model(x, cache=cache)[0, -1].astype(mx.float32)
        order = mx.argsort(-logits)[:20]
        top = logits[order]
        mx.eval(order, top)
        if first is None:
            first = {"ids": order.tolist(), "logits": [round(v, 4) for v in top.tolist()]}
        gap = min(gap, (top[0] - top[1]).item())
        out.append(order[0].item())
        if out[-1] in tokenizer.eos_token_ids:
            break
        x = mx.array([out[-1:]])
    text = tokenizer.decode(out)
    return {"messages": messages, "prompt_ids": ids, "out": out, "text": text, "min_gap": round(gap, 4), "first": first}


def differences(old, new):
    """What `new` has that `old` has not, as sentences; ids only where the gap allows it."""
    if len(old) != len(new):
        return [f"{len(old)} records, now {len(new)}"]
    found = []
    for i, (a, b) in enumerate(zip(old, new)):
        if a["messages"] != b["messages"] or a["prompt_ids"] != b["prompt_ids"]:
            found.append(f"prompt {i}: other ids")
        elif a["min_gap"] > NOISE and a["out"] != b["out"]:
            found.append(f"prompt {i}: {a['text']!r}, now {b['text']!r}")
        best = dict(zip(b["first"]["ids"], b["first"]["logits"]))
        # The 20th may swap with the 21st; the best ten are there.
        for token, logit in list(zip(a["first"]["ids"], a["first"]["logits"]))[:10]:
            if abs(best.get(token, float("inf")) - logit) > NOISE:
                found.append(f"prompt {i}: logit of {token} was {logit}, now {best.get(token)}")
    return found


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("model")
    args.add_argument("prompts")
    args.add_argument("out")
    args.add_argument("--max-tokens", type=int, default=32)
    args.add_argument("--check", action="store_true")
    args = args.parse_args()
    model, tokenizer = load(args.model)
    with open(args.prompts) as f:
        prompts = json.load(f)
    records = []
    for prompt in prompts:
        records.append(r := record(model, tokenizer, prompt, args.max_tokens))
        print(f"{len(r['prompt_ids'])} + {len(r['out'])} tokens, gap {r['min_gap']:.3f}: {r['text'][:60]!r}", flush=True)
    if args.check:
        with open(args.out) as f:
            found = differences(json.load(f), records)
        raise SystemExit("\n".join(found) if found else None)
    with open(args.out, "w") as f:
        json.dump(records, f, indent=0, ensure_ascii=False)


if __name__ == "__main__":
    main()
