"""JSON by schema, 8 requests at a time: schemas of the JSON Schema test suite, as the source package of jsonschema carries it.

    python schemas.py URL SUITE [--count 300] [--key SECRET]

Schemas that the service cannot follow are refused with a reason and counted. Every answer that ends by itself must parse and validate; one
that `max_tokens` cuts must say `length`, and its schema is asked again once with more room. Exits with 1 at the first thing that is wrong.
"""

import argparse
import json
import pathlib
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import jsonschema

DRAFTS = {"draft2020-12": jsonschema.Draft202012Validator, "draft2019-09": jsonschema.Draft201909Validator, "draft7": jsonschema.Draft7Validator}
WIDE = 8
TOKENS = (120, 480)


def schemas(suite):
    """Name, validator and schema of each group that is an object and refers to nothing outside of itself."""
    for draft, validator in DRAFTS.items():
        for path in sorted((suite / draft).glob("*.json")):
            for group in json.loads(path.read_text()):
                schema = group["schema"]
                if isinstance(schema, dict) and "://localhost" not in json.dumps(schema):
                    yield f"{draft}/{path.stem}: {group['description']}", validator, schema


def ask(url, key, schema, seed, tokens):
    """Status and body."""
    body = {
        "messages": [{"role": "user", "content": "Answer with a short JSON value."}],
        "max_tokens": tokens,
        "temperature": 0.7,
        "seed": seed,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}},
    }
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class Tally:
    def __init__(self, count):
        self.lock, self.count = threading.Lock(), count
        self.seen, self.wrong, self.reasons = Counter(), [], Counter()

    def enough(self):
        with self.lock:
            return self.seen["valid"] >= self.count or bool(self.wrong)

    def note(self, what, detail=None):
        with self.lock:
            self.seen[what] += 1
            if what == "wrong":
                self.wrong.append(detail)
            if what == "refused":
                self.reasons[detail] += 1


def one(url, key, tally, index, name, validator, schema):
    if tally.enough():
        return
    for tokens in TOKENS:
        status, body = ask(url, key, schema, index, tokens)
        if status == 400 and body["error"]["param"] == "response_format":
            return tally.note("refused", body["error"]["message"].split(": ", 1)[-1][:60])
        if status != 200:
            return tally.note("wrong", f"{name}: {status} {body}")
        choice = body["choices"][0]
        if choice["finish_reason"] == "length":
            tally.note("cut")
            continue
        text = choice["message"]["content"]
        try:
            value = json.loads(text)
            validator(schema).validate(value)
        except (ValueError, jsonschema.ValidationError) as error:
            return tally.note("wrong", f"{name}: {text!r} for {json.dumps(schema)}: {error}")
        return tally.note("valid")
    return tally.note("cut twice")


def main():
    args = argparse.ArgumentParser()
    args.add_argument("url")
    args.add_argument("suite", type=pathlib.Path)
    args.add_argument("--count", type=int, default=300)
    args.add_argument("--key")
    args = args.parse_args()
    began, tally = time.monotonic(), Tally(args.count)
    with ThreadPoolExecutor(WIDE) as pool:
        for index, (name, validator, schema) in enumerate(schemas(args.suite)):
            pool.submit(one, args.url, args.key, tally, index, name, validator, schema)
    for wrong in tally.wrong:
        print(f"wrong: {wrong}")
    for reason, times in tally.reasons.most_common(12):
        print(f"refused {times:4}: {reason}")
    print(f"schemas: {dict(tally.seen)}, {WIDE} at a time, {time.monotonic() - began:.0f} s")
    return 1 if tally.wrong or tally.seen["valid"] < args.count else 0


if __name__ == "__main__":
    sys.exit(main())
