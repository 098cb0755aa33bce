"""Writes this folder's JSON files: what the reference implementations give for the cases below.

templates.json and jinja.json also hold their cases: add one there without `want`, and run this. jinja.json's first row is what
all the others see. smollm2_prompts.json is from mlx-lm.

usage: make.py SMOLLM2_TOKENIZER_JSON   (needs the packages tokenizers, sentencepiece and jinja2)
"""
import io, json, os, sys
import jinja2, sentencepiece
from tokenizers import Tokenizer, pre_tokenizers, Regex

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../../tests/templates"))
from environment import SPECIALS, environment

TEXTS = [
    "Hello, world! It's 2024; I'm 1234567 years old.",
    "  two spaces,\ttab,\n\nnewlines   and trailing ",
    "Grüße aus Köln — naïve café, ½ price…",
    "日本語のテキストと中文字符，한국어도.",
    "Привет, мир! Γειά σου Κόσμε. שלום עולם مرحبا",
    "👩‍👩‍👧‍👦 family, 🏳️‍🌈 flag, e\u0301 combining, 𝔘𝔫𝔦",
    "fn main() { println!(\"{}\", x[0] >> 2); } // <|im_end|> DON'T",
    "",
    " ",
]


def write(name, value):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        rows = value if isinstance(value, list) else [value]
        lines = ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows)
        f.write(f"[\n{lines}\n]\n" if rows is value else lines + "\n")


def smollm2(path):
    t = Tokenizer.from_file(path)
    rows = [dict(text=x, ids=t.encode(x, add_special_tokens=False).ids) for x in TEXTS]
    for r in rows:
        r["decoded"] = t.decode(r["ids"], skip_special_tokens=True)
    write("smollm2.json", rows)


def sentence():
    model = io.BytesIO()
    corpus = [x for x in TEXTS[:5] if x.strip()] * 20 + [
        "the cat sat on the mat and the other cat sat there too", "banana bandana an ant", "aa aaa aaaa aaaaa b bb bbb"] * 30
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, model_type="bpe", vocab_size=520, byte_fallback=True,
        character_coverage=0.98, remove_extra_whitespaces=False, normalization_rule_name="identity", add_dummy_prefix=True,
        allow_whitespace_only_pieces=True, split_digits=True, user_defined_symbols=["<|user|>"], minloglevel=2)
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    n = sp.get_piece_size()
    kind = lambda i: 2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 4 if sp.id_to_piece(i) == "<|user|>" else 1
    texts = TEXTS[:4] + TEXTS[5:6] + ["the banana cat", "aaaa bbbb aaab", "there  are   gaps", "naïve\nline"]
    write("sentence.json", dict(
        tokens=[sp.id_to_piece(i) for i in range(n)], scores=[sp.get_score(i) for i in range(n)], types=[kind(i) for i in range(n)],
        rows=[dict(text=x, ids=sp.encode(x)) for x in texts]))


def cuts():
    llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    qwen2 = llama3.replace("{1,3}", "")
    bl = lambda r: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=r)
    split = lambda x: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(x), "isolated"), bl(False)])
    ways = {"smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bl(True)]),
            "llama-bpe": split(llama3), "qwen2": split(qwen2), "gpt-2": bl(True)}
    write("cuts.json", {k: [dict(text=x, words=[p for p, _ in w.pre_tokenize_str(x)]) for x in TEXTS] for k, w in ways.items()})


def templates():
    with open(os.path.join(HERE, "templates.json"), encoding="utf-8") as f:
        cases = json.load(f)
    env, rows = environment(), []
    for c in cases:
        v = dict(dict(tools=None, documents=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>"), **c.get("kwargs", {}))
        v["messages"] = c.get("messages", [])
        row = {k: x for k, x in c.items() if k not in ("want", "error")}
        try:
            row["want"] = env.from_string(c["template"]).render(**v)
        except jinja2.exceptions.TemplateError as e:
            row["error"] = str(e)
        except TypeError as e:
            row["error"] = "TypeError"
        rows.append(row)
    write("templates.json", rows)


def jinja():
    with open(os.path.join(HERE, "jinja.json"), encoding="utf-8") as f:
        shared, *cases = json.load(f)
    env, rows = environment(), [shared]
    for c in cases:
        row = {"template": c["template"]}
        try:
            # Its own copy each, whatever a case does to it.
            row["want"] = env.from_string(c["template"]).render(**SPECIALS, **json.loads(json.dumps(shared)))
        except Exception as e:
            row["error"] = f"{type(e).__name__}: {e}"
        rows.append(row)
    write("jinja.json", rows)


smollm2(sys.argv[1])
sentence()
cuts()
templates()
jinja()
