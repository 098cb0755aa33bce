"""A model of random weights that answers in milliseconds, with a tokenizer of single bytes: for who asks thousands of questions and reads
no answer."""
import json
import pathlib
import shutil

WEIGHTS = pathlib.Path(__file__).parents[2] / "models/tests/tiny/llama_tied"
VOCABULARY = 512
TEMPLATE = "{% for m in messages %}<|begin|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}<|begin|>assistant\n"


def byte_letters():
    """The letter that stands for each byte in byte-level tokenizers: itself where it can be seen, else one from 256 on."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return [chr(byte) if byte in seen else chr(256 + hidden.index(byte)) for byte in range(256)]


def make(folder):
    """Puts it there, and gives the folder."""
    shutil.copytree(WEIGHTS, folder, ignore=shutil.ignore_patterns("golden*"))
    special = ["<|begin|>", "<|end|>"]
    pieces = [*byte_letters(), *special]
    pieces += [f"<{number}>" for number in range(len(pieces), VOCABULARY)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": pieces.index(text), "content": text, **plain} for text in special],
        "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": False, "vocab": {piece: number for number, piece in enumerate(pieces)}, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": "<|end|>"}))
    return folder
