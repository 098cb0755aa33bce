"""Decode on one GPU: coxswain's own loop against mlx-lm's, and the floor that memory sets, on Llama-3-8B's shape.

usage: bench.py --decode BINARY --folder DIR [--only coxswain|mlx_lm] [--bits 16,4] [--steps 40] [--write]

BINARY is the example `decode` of the crate `models`. DIR takes the models, with random weights: 16 GB of bf16 and 5 GB of 4 bits.
Needs Python with mlx and mlx-lm for the GPU. Each system runs in a process of its own; rows with the same context are one table row.
Without HTTP, prompts of random ids, greedy; medians of --steps steps, two in flight for coxswain, one ahead for mlx-lm.
"""
import argparse
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DOC = os.path.join(HERE, "..", "..", "docs", "gpu.md")
BEGIN, END = "<!-- gpu-bench: begin -->", "<!-- gpu-bench: end -->"

SHAPE = dict(
    model_type="llama", hidden_size=4096, num_hidden_layers=32, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8,
    rms_norm_eps=1e-5, vocab_size=128256, rope_theta=500000.0, tie_word_embeddings=False, max_position_embeddings=8192,
)  # fmt: skip
GROUP = 64
# (bits, rows, context), and the milliseconds to reach.
CASES = [(16, 1, 512, 5.3), (16, 8, 512, 5.6), (16, 32, 512, 6.3), (16, 64, 512, 7.5), (16, 16, 4096, 9.0), (4, 16, 512, 4.0)]


def random_model(bits):
    """Llama of the shape, in bf16 or packed."""
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_map
    from mlx_lm.models import llama

    model = llama.Model(llama.ModelArgs.from_dict(SHAPE))
    mx.random.seed(0)
    model.update(tree_map(lambda p: (mx.random.normal(p.shape) * 0.02).astype(mx.bfloat16), model.parameters()))
    if bits < 16:
        nn.quantize(model, GROUP, bits)
    mx.eval(model.parameters())
    return model


def make(folder, bits):
    """The model on disk, in files of a few GB, unless it is there."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    config = dict(SHAPE) if bits == 16 else dict(SHAPE, quantization={"group_size": GROUP, "bits": bits})
    done = os.path.join(folder, "config.json")
    if os.path.exists(done):
        return
    os.makedirs(folder, exist_ok=True)
    weights = dict(tree_flatten(random_model(bits).parameters()))
    names = sorted(weights)
    for n in range(4):
        mx.save_safetensors(os.path.join(folder, f"model-{n + 1}.safetensors"), {k: weights[k] for k in names[n::4]}, {"format": "mlx"})
    with open(done, "w") as f:
        json.dump(config, f)


def bandwidth():
    """Bytes a second that this card copies at: the largest of several passes over 4 GB."""
    import time

    import mlx.core as mx

    a = mx.zeros((1 << 30,), dtype=mx.float32)
    mx.eval(a)
    best = 0.0
    for _ in range(8):
        began = time.perf_counter()
        mx.eval(a + 1)
        best = max(best, 2 * a.nbytes / (time.perf_counter() - began))
    return best


def floor(case, copied):
    """Milliseconds to read the weights and the rows' K and V once."""
    bits, rows, context, _ = case
    hidden, inner, kv = SHAPE["hidden_size"], SHAPE["intermediate_size"], SHAPE["num_key_value_heads"] * 128
    weights = SHAPE["num_hidden_layers"] * (2 * hidden * hidden + 2 * kv * hidden + 3 * hidden * inner) + SHAPE["vocab_size"] * hidden
    stored = bits + (32 / GROUP if bits < 16 else 0)
    cached = rows * context * SHAPE["num_hidden_layers"] * 2 * kv * 2
    return (weights * stored / 8 + cached) / copied * 1e3


def mlx_lm(bits, steps):
    """Prints a line of JSON for each of mlx-lm's cases."""
    import statistics
    import time

    import mlx.core as mx
    from mlx_lm.models.cache import BatchKVCache, make_prompt_cache

    model = random_model(bits)
    for case in (c for c in CASES if c[0] == bits):
        _, rows, context, _ = case
        cache = make_prompt_cache(model) if rows == 1 else [BatchKVCache([0] * rows) for _ in model.layers]
        said = {"case": case[:3]}
        try:
            ids = mx.random.randint(0, 1000, (rows, context))
            mx.reset_peak_memory()
            step = lambda tokens: mx.argmax(model(tokens, cache=cache)[:, -1], -1)
            tokens = step(ids)
            mx.eval(tokens)
            tokens = step(tokens[:, None])
            mx.async_eval(tokens)
            times, last = [], time.perf_counter()
            for _ in range(steps):
                ahead = step(tokens[:, None])
                mx.async_eval(ahead)
                mx.eval(tokens)
                tokens, now = ahead, time.perf_counter()
                times.append(now - last)
                last = now
            said.update(ms=statistics.median(times) * 1e3, peak_gb=mx.get_peak_memory() / 1e9)
        except (RuntimeError, ValueError) as e:
            said["failed"] = str(e).splitlines()[0][:80]
        print(json.dumps(said), flush=True)


def coxswain(decode, folder, bits, steps):
    """By (rows, context): milliseconds a step and the peak of decoding, GB."""
    cases = ",".join(f"{rows}x{context}" for b, rows, context, _ in CASES if b == bits)
    out = subprocess.run([decode, folder, "gpu", cases, "512", str(steps)], capture_output=True, text=True)
    sys.stderr.write(out.stdout + out.stderr)
    if out.returncode != 0:
        raise SystemExit(f"{decode} failed")
    found = re.findall(r"rows +(\d+) +context +(\d+) +([\d.]+) ms.*?peak ([\d.]+) GB", out.stdout)
    return {(int(rows), int(context)): (float(ms), float(peak)) for rows, context, ms, peak in found}


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("--decode", metavar="BINARY")
    args.add_argument("--folder", metavar="DIR", required=True)
    args.add_argument("--only", choices=["coxswain", "mlx_lm"])
    args.add_argument("--bits", default="16,4")
    args.add_argument("--steps", type=int, default=40)
    args.add_argument("--write", action="store_true", help="put the table into docs/gpu.md")
    args.add_argument("--part", choices=["make", "mlx_lm", "card"], help=argparse.SUPPRESS)
    args.add_argument("--part-bits", type=int, help=argparse.SUPPRESS)
    args = args.parse_args()
    folder = lambda bits: os.path.join(args.folder, f"llama-8b-{bits}")
    if args.part == "make":
        return make(folder(args.part_bits), args.part_bits)
    if args.part == "mlx_lm":
        return mlx_lm(args.part_bits, args.steps)
    if args.part == "card":
        import mlx.core as mx

        return print(json.dumps([mx.device_info().get("device_name", "a GPU"), bandwidth()]))
    if args.only != "mlx_lm" and not args.decode:
        raise SystemExit("--decode is needed, or --only mlx_lm")

    def part(name, bits=16):
        command = [sys.executable, os.path.abspath(__file__), "--folder", args.folder, "--steps", str(args.steps), "--part", name, "--part-bits", str(bits)]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        # mlx-lm may take its process along; what it had printed stays.
        if out.returncode != 0 and name != "mlx_lm":
            raise SystemExit(f"{' '.join(command)} failed")
        return out.stdout.splitlines()

    card, copied = json.loads(part("card")[-1])
    ours, theirs = {}, {}
    for bits in map(int, args.bits.split(",")):
        if args.only != "mlx_lm":
            part("make", bits)
            ours.update({(bits, *k): v for k, v in coxswain(args.decode, folder(bits), bits, args.steps).items()})
        if args.only != "coxswain":
            lines = [json.loads(line) for line in part("mlx_lm", bits) if line.startswith("{")]
            theirs.update({tuple(line["case"]): line for line in lines})
    lines = [
        f"`make gpu-bench` on {card}, which copies at {copied / 1e12:.2f} TB/s; ms a step of decoding, medians of {args.steps}:",
        "",
        "| weights | rows | context | floor | mlx-lm | coxswain | to reach | mlx-lm / coxswain | peak, mlx-lm | peak, coxswain |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        bits, rows, context, reach = case
        mine, other = ours.get(case[:3]), theirs.get(case[:3])
        if mine is None and other is None:
            continue
        ms = other and other.get("ms")
        cells = [
            "bf16" if bits == 16 else f"{bits} bits", rows, context, f"{floor(case, copied):.1f}", f"{ms:.1f}" if ms else (other or {}).get("failed", "-"),
            f"{mine[0]:.2f}" if mine else "-", reach, f"{ms / mine[0]:.1f}" if ms and mine else "-",
            f"{other['peak_gb']:.1f} GB" if ms else "-", f"{mine[1]:.1f} GB" if mine else "-",
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    text = "\n".join(lines)
    print(text)
    if args.write:
        with open(DOC) as f:
            before, rest = f.read().split(BEGIN)
        after = rest.split(END)[1]
        with open(DOC, "w") as f:
            f.write(before + BEGIN + "\n" + text + "\n" + END + after)


if __name__ == "__main__":
    main()
