#!/usr/bin/env python3
"""Writes dashboards/{service,batch,team}.json. They are made here so that every panel of a kind looks alike and every expression
filters by the same variables; a change made in Grafana is carried over by hand.

usage: build.py [--check]    --check writes nothing and fails where a file is not what this makes
"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent / "dashboards"
SCHEMA_VERSION = 42
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
MODEL = 'model_name=~"$model_name"'
TOKENS_PER_S = "suffix: tok/s"


def of(series, *matchers):
    """A selector: the series of the chosen models."""
    return f"{series}{{{', '.join([MODEL, *matchers])}}}"


def rate(series, *matchers):
    return f"rate({of(series, *matchers)}[$__rate_interval])"


def total(series, *matchers, by=None):
    """A counter, by the second."""
    return f"sum{f' by ({by})' if by else ''} ({rate(series, *matchers)})"


def grown(series, *matchers, by=None, over="$__rate_interval"):
    """A counter, by how much it grew. For things that are rare, where a number by the second says nothing."""
    return f"sum{f' by ({by})' if by else ''} (increase({of(series, *matchers)}[{over}]))"


def now(series, *matchers, by=None):
    """A gauge. Never with rate()."""
    return f"sum{f' by ({by})' if by else ''} ({of(series, *matchers)})"


def quantile(q, series, *matchers, by=None):
    return f"histogram_quantile({q}, sum by ({f'le, {by}' if by else 'le'}) ({rate(series + '_bucket', *matchers)}))"


def mean(series, *matchers, by=None):
    """Of a histogram. Where nothing was observed this is no number, which a graph leaves out."""
    return f"{total(series + '_sum', *matchers, by=by)} / {total(series + '_count', *matchers, by=by)}"


def quantiles(series):
    return [(quantile(q, series), f"p{round(100 * q)}") for q in (0.5, 0.95, 0.99)]


def target(index, expr, legend, instant=False, form="time_series"):
    return {
        "refId": chr(ord("A") + index),
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": expr,
        "legendFormat": legend,
        "instant": instant,
        "range": not instant,
        "format": form,
    }


def panel(kind, title, says, targets, unit, options, custom=None, overrides=(), size=(8, 8), **defaults):
    """`size` in Grafana's grid, which is 24 wide."""
    fields = {"unit": unit, "color": {"mode": "palette-classic"}, "mappings": [], **defaults}
    if custom is not None:
        fields["custom"] = custom
    return {
        "type": kind,
        "title": title,
        "description": says,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": fields, "overrides": list(overrides)},
        "options": options,
        "gridPos": {"x": 0, "y": 0, "w": size[0], "h": size[1]},
    }


def graph(title, says, series, unit, stack=False, bars=False, **more):
    custom = {
        "drawStyle": "bars" if bars else "line",
        "lineWidth": 1,
        "fillOpacity": 60 if bars else 25 if stack else 8,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stack else "none", "group": "A"},
        "axisSoftMin": 0,
    }
    options = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel("timeseries", title, says, [target(i, *s) for i, s in enumerate(series)], unit, options, custom, min=0, **more)


def number(title, says, expr, unit, steps=((None, "green"),), **more):
    """One number, now. `steps` are thresholds: from this value on, this colour."""
    thresholds = {"mode": "absolute", "steps": [{"value": value, "color": colour} for value, colour in steps]}
    options = {
        "colorMode": "value",
        "graphMode": "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "auto",
        "wideLayout": True,
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
        "reduceOptions": {"calcs": ["lastNotNull"], "values": False},
    }
    more = {"size": (4, 4), **more}
    return panel("stat", title, says, [target(0, expr, "")], unit, options, thresholds=thresholds, **{**more, "color": {"mode": "thresholds"}})


def heatmap(title, says, series):
    options = {
        "calculate": False,
        "cellGap": 1,
        "cellValues": {"unit": "short"},
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5, "fill": "dark-orange", "reverse": False},
        "exemplars": {"color": "orange"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
        "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": False},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": "short"},
    }
    return panel("heatmap", title, says, [target(0, grown(series + "_bucket", by="le"), "{{le}}", form="heatmap")], "short", options, size=(12, 8))


def ranking(title, says, expr, legend, unit):
    """Bars of one number each over the time that the dashboard shows."""
    options = {
        "displayMode": "basic",
        "orientation": "horizontal",
        "showUnfilled": True,
        "minVizWidth": 8,
        "minVizHeight": 16,
        "maxVizHeight": 48,
        "namePlacement": "auto",
        "sizing": "auto",
        "valueMode": "color",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
        "reduceOptions": {"calcs": ["lastNotNull"], "values": False},
    }
    return panel("bargauge", title, says, [target(0, expr, legend, instant=True)], unit, options, min=0)


def table(title, says, expr, hidden):
    options = {"showHeader": True, "cellHeight": "sm"}
    custom = {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False}
    hide = {"id": "organize", "options": {"excludeByName": dict.fromkeys(["Time", "__name__", "Value", *hidden], True), "indexByName": {}, "renameByName": {}}}
    made = panel("table", title, says, [target(0, expr, "", instant=True, form="table")], "none", options, custom, size=(8, 4))
    return {**made, "transformations": [hide]}


def line(name, **settings):
    """An override for one series of a graph."""
    return {"matcher": {"id": "byName", "options": name}, "properties": [{"id": key, "value": value} for key, value in settings.items()]}


def lay(panels):
    """From left to right, a new line where one is full or the next panel has another height. Each gets its number."""
    x = y = height = 0
    for i, each in enumerate(panels):
        grid = each["gridPos"]
        if x + grid["w"] > 24 or x and grid["h"] != height:
            x, y = 0, y + height
        grid["x"], grid["y"] = x, y
        x, height = x + grid["w"], grid["h"]
        each["id"] = i + 1
    return panels


def dashboard(name, title, says, panels):
    variables = [
        {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "refresh": 1, "hide": 0, "multi": False, "includeAll": False},
        {
            "type": "query",
            "name": "model_name",
            "label": "Model",
            "datasource": SOURCE,
            "query": {"qryType": 1, "query": "label_values(vllm:num_requests_running, model_name)", "refId": "PrometheusVariableQueryEditor-VariableQuery"},
            "refresh": 2,
            "sort": 1,
            "hide": 0,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        },
    ]
    others = {"type": "dashboards", "title": "coxswain", "tags": ["coxswain"], "asDropdown": False, "icon": "external link", "includeVars": True,
              "keepTime": True, "targetBlank": False, "tooltip": "", "url": ""}
    return {
        "uid": f"coxswain-{name}",
        "title": f"coxswain: {title}",
        "description": says,
        "tags": ["coxswain"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "timepicker": {},
        "refresh": "15s",
        "fiscalYearStartMonth": 0,
        "annotations": {"list": []},
        "links": [others],
        "templating": {"list": variables},
        "panels": lay(panels),
    }


def service():
    ended = "vllm:request_success_total"
    failed = total(ended, 'finished_reason="error"')
    e2e, first, between = "vllm:e2e_request_latency_seconds", "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds"
    parts = [(mean(f"vllm:request_{part}_time_seconds"), part) for part in ("queue", "prefill", "decode")]
    return [
        number("Running", "Rows in the batch.", now("vllm:num_requests_running"), "none"),
        number("Waiting", "Rows in the queue.", now("vllm:num_requests_waiting"), "none", [(None, "green"), (16, "orange")]),
        number("Requests", "Requests that ended, a second.", total(ended), "reqps"),
        number("Answers", "Tokens generated, a second.", total("vllm:generation_tokens_total"), TOKENS_PER_S),
        number("First token, p95", "From arrival to the first token.", quantile(0.95, first), "s", [(None, "green"), (5, "orange"), (20, "red")]),
        number("Errors", "Share of ended requests that failed. Refused ones never began and are not among them.", f"{failed} / {total(ended)}", "percentunit",
               [(None, "green"), (0.001, "orange"), (0.05, "red")]),
        graph("Traffic", "Requests that ended, by how. abort: the client left.", [(total(ended, by="finished_reason"), "{{finished_reason}}")], "reqps", stack=True),
        graph("Errors and refusals", "Requests that failed, and those that were refused before they became a row, by why.",
              [(failed, "failed"), (total("coxswain:admissions_refused_total", by="reason"), "refused: {{reason}}")], "reqps"),
        graph("Tokens", "Prompt tokens count when their prompt is read; those that a cached prefix spared are among them and shown apart too.",
              [(total("vllm:prompt_tokens_total"), "prompt"), (total("vllm:prompt_tokens_cached_total"), "prompt, cached"),
               (total("vllm:generation_tokens_total"), "generated")], TOKENS_PER_S),
        graph("Time to first token", "From arrival to the first token: queue and prefill.", quantiles(first), "s"),
        graph("Inter-token latency", "Between two tokens of a row. A long prompt beside it shows here.", quantiles(between), "s"),
        graph("End to end", "From arrival to the end of the answer.", quantiles(e2e), "s"),
        graph("Where the time goes", "Mean time of a request in the queue, in prefill and in decode.", parts, "s", stack=True),
        graph("Time per output token", "A request's mean time between tokens.", quantiles("vllm:request_time_per_output_token_seconds"), "s"),
        graph("max_tokens asked for, and used", "Medians: what requests ask for, and what their answers come to.",
              [(quantile(0.5, "vllm:request_params_max_tokens"), "asked for, p50"), (quantile(0.5, "vllm:request_generation_tokens"), "used, p50")], "short"),
        heatmap("Prompt length", "Prompt tokens of requests.", "vllm:request_prompt_tokens"),
        heatmap("Answer length", "Generated tokens of requests.", "vllm:request_generation_tokens"),
    ]


def batch():
    step = "coxswain:step_seconds"
    wait = "coxswain:queue_wait_seconds"
    budget = line("budget", **{"custom.stacking": {"mode": "none"}, "custom.fillOpacity": 0, "custom.lineStyle": {"fill": "dash", "dash": [8, 8]},
                               "color": {"mode": "fixed", "fixedColor": "red"}})
    scraped = ["instance", "job"]
    return [
        graph("Rows", "In the batch and in the queue.", [(now("vllm:num_requests_running"), "running"), (now("vllm:num_requests_waiting"), "waiting")], "none"),
        graph("Rows of a step", "How full steps are.", [(mean("coxswain:batch_rows"), "mean"), (quantile(0.95, "coxswain:batch_rows"), "p95")], "short"),
        graph("Queue wait", "From arrival to admission, all keys together.", quantiles(wait), "s"),
        graph("Steps", "Steps a second.", [(total("coxswain:batch_rows_count"), "steps")], "suffix: steps/s"),
        graph("Step phases, mean", "Prefill and decode are forward passes: of steps with a chunk of a prompt, and of those without.", [(mean(step, by="phase"), "{{phase}}")], "s"),
        graph("Step phases, p95", "A prefill step is what everybody's next token waits for at most.", [(quantile(0.95, step, by="phase"), "{{phase}}")], "s"),
        graph("Where the steps' time goes", "Seconds of each phase in a second. More than 1 is possible: two steps may be in flight.",
              [(total(step + "_sum", by="phase"), "{{phase}}")], "percentunit", stack=True),
        graph("Tokens of a step", "Mean, by kind.", [(mean("coxswain:step_tokens", by="kind"), "{{kind}}"), (mean("vllm:iteration_tokens_total"), "all")], "short"),
        graph("Preemptions", "Rows that lost their blocks and went back to the queue, and tokens that were computed again for it or after a loss of the model.",
              [(grown("vllm:num_preemptions_total"), "preempted rows"), (grown("coxswain:recomputed_tokens_total"), "recomputed tokens")], "short", bars=True),
        graph("KV memory", "Bytes of the pool by holder, against the budget. A cached prefix gives way to rows.",
              [(now("coxswain:kv_bytes", 'holder!="free"', by="holder"), "{{holder}}"), (now("coxswain:kv_budget_bytes"), "budget")], "decbytes", stack=True, overrides=[budget]),
        graph("KV held by rows", "Share of the pool that live rows hold. At 1 the youngest row is preempted.",
              [(f"max by (model_name) ({of('vllm:kv_cache_usage_perc')})", "{{model_name}}")], "percentunit", max=1),
        graph("Prefix hits", "Share of prompt tokens that a cached prefix had.",
              [(f"{total('vllm:prefix_cache_hits_total')} / {total('vllm:prefix_cache_queries_total')}", "hit rate")], "percentunit", max=1),
        graph("MLX memory", "What the device's allocator holds.", [(now("coxswain:mlx_memory_bytes", by="kind"), "{{kind}}")], "decbytes", size=(6, 8)),
        graph("Losses of the model", "By cause; the model is opened again after each.", [(grown("coxswain:worker_restarts_total", by="cause"), "{{cause}}")], "short", bars=True, size=(6, 8)),
        graph("Recovered rows", "Rows that went on after the model was lost under them.", [(grown("coxswain:recovered_rows_total"), "rows")], "short", bars=True, size=(6, 8)),
        graph("Broken invariants", "Since the service started. Each is a bug.", [(now("coxswain:invariant_violations_total", by="id"), "{{id}}")], "short", size=(6, 8)),
        table("Loaded", "What is served.", of("coxswain:loaded_info"), [*scraped, "model_name"]),
        table("KV pool", "Tokens of a block, blocks, and their type.", of("vllm:cache_config_info"), [*scraped, "model_name"]),
        table("Adapters", "What vLLM says of LoRA adapters, for what reads it.", of("vllm:lora_requests_info"), [*scraped, "model_name"]),
    ]


def team():
    tokens = "coxswain:key_tokens_total"
    rows = "coxswain:key_rows"
    wait = "coxswain:queue_wait_seconds"

    def most(kind):
        return f"sort_desc({grown(tokens, kind, by='key', over='$__range')})"

    return [
        ranking("Answers by key", "Tokens generated in the time shown.", most('kind="output"'), "{{key}}", "short"),
        ranking("Prompts by key", "Prompt tokens in the time shown.", most('kind="prompt"'), "{{key}}", "short"),
        ranking("Mean wait by key", "In the queue, in the time shown.",
                f"sort_desc({mean(wait, by='key').replace('$__rate_interval', '$__range')})", "{{key}}", "s"),
        graph("Tokens generated", "By key.", [(total(tokens, 'kind="output"', by="key"), "{{key}}")], TOKENS_PER_S, stack=True),
        graph("Prompt tokens", "By key.", [(total(tokens, 'kind="prompt"', by="key"), "{{key}}")], TOKENS_PER_S, stack=True),
        graph("Queue wait, p95", "By key. A key that asks for more than its share waits longer than others; that is meant.", [(quantile(0.95, wait, by="key"), "{{key}}")], "s"),
        graph("Running", "Rows in the batch, by key.", [(now(rows, 'state="running"', by="key"), "{{key}}")], "none", stack=True),
        graph("Waiting", "Rows in the queue, by key.", [(now(rows, 'state="waiting"', by="key"), "{{key}}")], "none", stack=True),
        graph("Admissions", "Rows that came out of the queue, by key.", [(total(wait + "_count", by="key"), "{{key}}")], "reqps", stack=True),
        graph("Refusals", "Requests that never became a row, by why.", [(grown("coxswain:admissions_refused_total", by="reason"), "{{reason}}")], "short", bars=True, size=(12, 8)),
        graph("Clients that left", "By what their row was doing.", [(grown("coxswain:disconnects_total", by="phase"), "{{phase}}")], "short", bars=True, size=(12, 8)),
    ]


DASHBOARDS = {
    "service": dashboard("service", "Service", "What clients feel: traffic, errors, latencies, tokens a second.", service()),
    "batch": dashboard("batch", "Batch", "What the machine does: rows, queue, steps, KV memory, recovery.", batch()),
    "team": dashboard("team", "Team", "Who uses it: tokens, rows and waits by key, refusals, clients that left.", team()),
}


def main():
    stale = []
    for name, made in DASHBOARDS.items():
        text = json.dumps(made, indent=2) + "\n"
        path = FOLDER / f"{name}.json"
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(str(path))
    if stale:
        sys.exit(f"not what build.py makes: {', '.join(stale)}; run it again, or carry the change over to it")


if __name__ == "__main__":
    main()
