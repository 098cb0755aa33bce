#!/usr/bin/env python3
"""deploy/ against a live service. Started by run.sh, which sees to the tools.

1. What is in deploy/, each file by its own tool, and the dashboards by Grafana's schema.
2. The service with a keys file of two keys, and a Prometheus that scrapes it with the shipped configuration and rules.
3. Load, until every series that can have moved has.
4. Every expression of every panel, variable and rule, and those of vLLM's own dashboard (vllm.json), put to Prometheus. Each must
   answer with a number that is one. Panels are asked as Grafana asks, over the time of the load.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import expressions
import files
from load import BATCH, BUDGET, Client, Load
from processes import Prometheus, Service, until
from report import Report

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
DEPLOY = ROOT / "deploy"
# Nothing of this may happen, however hard the load is.
NEVER = {"coxswain:invariant_violations_total"}


def family(line):
    return re.match(r"# TYPE (\S+) (\S+)", line)


def moved(report, service):
    """Every counter and histogram of the page has counted something: otherwise data could be there that says nothing."""
    page = service.metrics()
    types = dict(found.groups() for line in page.splitlines() if (found := family(line)))
    for name, kind in types.items():
        if kind != "gauge":
            count = service.value(name if kind == "counter" else name + "_count")
            report.check(count == 0 if name in NEVER else count > 0, f"the load moves {name}: {count}")
    for reason in ("never_fits", "invalid", "rate_limit", "unauthorized"):
        count = service.value("coxswain:admissions_refused_total", f'reason="{reason}"')
        report.check(count > 0, f"a refusal is counted as {reason}: {count}")
    return types


def answered(report, prometheus, expression, model, window):
    begin, end = window
    text = expression.filled(model, rate_interval_s=expressions.RATE_INTERVALS * shipped_interval_s(), range_s=round(end - begin))
    numbers, _, error = prometheus.points(text, end, None if expression.instant else begin)
    report.check(numbers, f"{expression.place} has no data: {error or text}")


def shipped_interval_s():
    """What the data source tells Grafana; the same as what Prometheus scrapes at."""
    source = (DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text()
    scraped = (DEPLOY / "prometheus/prometheus.yml").read_text()
    told = int(re.search(r"timeInterval: (\d+)s", source)[1])
    if told != int(re.search(r"scrape_interval: (\d+)s", scraped)[1]):
        raise SystemExit("deploy: the data source is told another interval than Prometheus scrapes at")
    return told


def ask_everything(report, prometheus, types, model, window):
    boards = sorted((DEPLOY / "grafana/dashboards").glob("*.json"))
    panels = [each for board in boards for each in expressions.of_dashboard(board)]
    vllm = expressions.of_list(HERE / "vllm.json")
    # The variable as All, and as one chosen model, whose name Grafana escapes.
    for value in (".*", re.sub(r"([.^$*+?()|\[\]{}\\/])", r"\\\\\1", model)):
        for each in panels:
            answered(report, prometheus, each, value, window)
    for each in vllm:
        answered(report, prometheus, each, model, window)
    for each in panels + vllm:
        wrong = list(expressions.misuses(each.text, types))
        report.check(not wrong, f"{each.place}: {wrong}")
    for board in boards:
        for place, series, label in expressions.variables(board):
            report.check(model in prometheus.ask(f"label/{label}/values", **{"match[]": series})["data"], f"{place} lists the model")
    rules = [rule for group in prometheus.ask("rules")["data"]["groups"] for rule in group["rules"]]
    for rule in rules:
        report.check(rule["health"] == "ok", f"{rule['name']} cannot be evaluated: {rule.get('lastError')}")
        text = expressions.without_comparison(rule["query"])
        report.check(text != rule["query"], f"{rule['name']} compares nothing: {rule['query']}")
        numbers, _, error = prometheus.points(text, window[1])
        report.check(numbers, f"{rule['name']} has no data with its comparisons off: {error or text}")
        wrong = list(expressions.misuses(rule["query"], types))
        report.check(not wrong, f"{rule['name']}: {wrong}")
    report.say(f"asked: {len(panels)} expressions of panels, {len(vllm)} of vLLM's dashboard, {len(rules)} rules")
    unseen = files.shown([each.text for each in panels] + [rule["query"] for rule in rules], types)
    report.say(f"series that nothing shows: {', '.join(unseen) or 'none'}")
    return rules


def can_fail(report, prometheus, window):
    """The same questions about what is not there, so that an answer means something."""
    for text in ("vllm:no_such_series", "rate(vllm:generation_tokens[1m])", 'vllm:num_requests_running{model_name="another"}',
                 "histogram_quantile(0.5, sum by (le) (rate(vllm:e2e_request_latency_seconds_count[1m])))", "0 / 0", "not a query"):
        numbers, _, _ = prometheus.points(text, window[1], window[0])
        report.check(not numbers, f"the test takes {text} for data")


def alarms(report, rules):
    """What happened under the load fires, and nothing else does."""
    state = {rule["name"]: rule["state"] for rule in rules}
    for name, expected in {"CoxswainWorkerLost": "firing", "CoxswainRefusing": "pending", "CoxswainDown": "inactive", "CoxswainNoProgress": "inactive",
                           "CoxswainInvariantBroken": "inactive", "CoxswainWorkerLostAgain": "inactive"}.items():
        report.check(state.get(name) == expected, f"{name} is {state.get(name)}, and should be {expected}")


def make_keys(binary, path):
    """A keys file as its notes tell to make one: two of a team, and a guest who may ask once a minute. Gives their secrets."""
    secrets, text = [], ""
    for name, limit in [("ann", ""), ("bob", ""), ("guest", "requests_per_minute = 1\n")]:
        made = subprocess.run([binary, "key", name], capture_output=True, text=True, check=True)
        secrets.append(re.search(r"sk-cox-\w+", made.stderr)[0])
        text += made.stdout.rstrip("\n") + "\n" + limit
    path.write_text(text)
    return secrets


def by_key(report, prometheus, end):
    """Each of the team's keys has tokens of its own, and the sum of all keys is what the service generated."""
    for key in ("ann", "bob"):
        for kind in ("prompt", "output"):
            numbers, _, _ = prometheus.points(f'coxswain:key_tokens_total{{key="{key}", kind="{kind}"}} > 0', end)
            report.check(numbers == 1, f"{key} has {kind} tokens")
    same = 'sum(coxswain:key_tokens_total{kind="output"}) == sum(vllm:generation_tokens_total)'
    report.check(prometheus.points(same, end)[0], f"no token is without a key: {same}")


def live(report, binary, scratch):
    keys = scratch / "keys.toml"
    secrets = make_keys(binary, keys)
    options = ["--batch", BATCH, "--kv-budget", BUDGET, "--keys", keys, "--drain-timeout", "1"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with Service(binary, options, scratch / "service.log", environment) as service, \
            Prometheus(DEPLOY / "prometheus", scratch, f"127.0.0.1:{service.port}", "1s") as prometheus:
        # Counters grow only between two scrapes: what happened before the first is no rate.
        until("Prometheus has scraped the service", lambda: prometheus.points("up == 1", time.time())[0], 30)
        begin = time.time()
        *team, guest = (Client(service, secret) for secret in secrets)
        load = Load(service, team, guest)
        load.run()
        report.check(not load.wrong, f"answers that are none: {load.wrong[:3]}")
        stranger = Client(service, "nobody's").ask({"prompt": "x"})[0]
        report.check(stranger == 401, f"a secret that is in no file is refused with 401: {stranger}")
        types = moved(report, service)
        done = service.value("vllm:request_success_total")
        until("Prometheus has seen the end", lambda: prometheus.points(f"sum(vllm:request_success_total) == {done:.0f}", time.time())[0], 30)
        window = (begin, time.time())
        report.say(f"load of {window[1] - window[0]:.0f} s: {len(load.answers)} answers")
        listed = files.documented(ROOT / "metrics/README.md")
        report.check(listed == types, f"the page and metrics/README.md differ: {sorted(set(listed.items()) ^ set(types.items()))}")
        model = prometheus.ask("label/model_name/values")["data"][0]
        rules = ask_everything(report, prometheus, types, model, window)
        files.told(report, rules, DEPLOY / "README.md")
        alarms(report, rules)
        can_fail(report, prometheus, window)
        by_key(report, prometheus, window[1])


def interrupted(number, _):
    """Ends what was started, as a test that fails does; a second signal must not end that too early."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


def main():
    binary, target = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, interrupted)
    report = Report()
    kept = target / "deploy"
    kept.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    files.check(report, DEPLOY, kept)
    with tempfile.TemporaryDirectory(prefix="run.", dir=kept) as scratch:
        live(report, binary, pathlib.Path(scratch))
    report.say(f"took {time.monotonic() - began:.0f} s")
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
