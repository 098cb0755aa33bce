"""Renders every conversation with every template, with jinja2 as transformers sets it up and with coxswain, and prints each difference.

usage: run.py RENDER FOLDER [--only WORD] [--verbose]    RENDER is models/examples/render.rs, FOLDER holds *.jinja

Where jinja2 raises, whatever it raises, coxswain must give an error, and the other way round; else every byte is the same.
"""

import argparse, json, os, subprocess, sys

from conversations import everything
from environment import NOW, SPECIALS, environment


def expected(template, case):
    """(text, None), or (None, why not)."""
    _, messages, kwargs = case
    variables = {**SPECIALS, "tools": None, "documents": None, "add_generation_prompt": True, **kwargs, "messages": messages}
    try:
        # A copy: what a template changes must not reach the next.
        return template.render(**json.loads(json.dumps(variables))), None
    except Exception as e:
        return None, f"{type(e).__name__}: {e}"


def main():
    args = argparse.ArgumentParser()
    args.add_argument("render")
    args.add_argument("folder")
    args.add_argument("--only", default="", help="templates with this in their name")
    args.add_argument("--verbose", action="store_true", help="every difference in full, not the first three of a template")
    args = args.parse_args()
    cases = list(everything())
    names = [case[0] for case in cases]
    assert len(set(names)) == len(names), "two conversations have one name"
    env = environment()
    files = sorted(f for f in os.listdir(args.folder) if f.endswith(".jinja") and args.only in f)
    wants, lines = [], []
    for file in files:
        with open(os.path.join(args.folder, file), encoding="utf-8") as f:
            source = f.read()
        template = env.from_string(source)
        for case in cases:
            wants.append((file, case[0], *expected(template, case)))
            lines.append(json.dumps({"template": source, "specials": SPECIALS, "now": NOW, "messages": case[1], "kwargs": case[2]}))
    done = subprocess.run([args.render], input="\n".join(lines), stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True)
    gots = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert len(gots) == len(wants), f"{len(gots)} answers to {len(wants)} questions"
    return report(files, wants, gots, args.verbose)


def report(files, wants, gots, verbose):
    table = {file: [0, 0, []] for file in files}
    for (file, name, want, why), got in zip(wants, gots):
        row = table[file]
        if want is not None and got.get("text") == want:
            row[0] += 1
        elif want is None and "error" in got:
            row[1] += 1
        else:
            row[2].append(f"  {name}\n" + difference(want, why, got))
    for file, (same, both, different) in table.items():
        print(f"{same:5} identical {both:4} both raise {len(different):4} different  {file}")
        for text in different[: None if verbose else 3]:
            print(text)
    same, both, different = (sum(map(f, table.values())) for f in (lambda r: r[0], lambda r: r[1], lambda r: len(r[2])))
    print(f"templates: {len(files)} templates x {len(wants) // max(len(files), 1)} conversations: {same} identical, {both} raise in both, {different} different")
    return 1 if different or not files else 0


def difference(want, why, got):
    if want is None:
        return f"    jinja2:   {why}\n    coxswain: {json.dumps(got['text'][-200:], ensure_ascii=False)}"
    if "error" in got:
        return f"    jinja2:   {json.dumps(want[-200:], ensure_ascii=False)}\n    coxswain: {got['error']}"
    text = got["text"]
    at = next((i for i, (a, b) in enumerate(zip(want, text)) if a != b), min(len(want), len(text)))
    shown = [json.dumps(t[max(at - 60, 0) : at + 80], ensure_ascii=False) for t in (want, text)]
    return f"    jinja2:   … {shown[0]}\n    coxswain: … {shown[1]}"


sys.exit(main())
