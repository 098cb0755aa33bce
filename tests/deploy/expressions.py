"""What the dashboards and rules ask of Prometheus: every expression, with Grafana's variables filled in as Grafana fills them."""
import dataclasses
import json
import re

# Grafana takes four times the data source's interval, where the graph's own step is not longer.
RATE_INTERVALS = 4
COMPARISON = re.compile(r'"(?:[^"\\]|\\.)*"|\{[^}]*\}|(==|!=|>=|<=|>|<)(?!\s*bool\b)')
USED = re.compile(r"\b((?:vllm|coxswain):[a-z0-9_]+)")
GROWTH = re.compile(r"\b(?:rate|increase)\s*\(\s*((?:vllm|coxswain):[a-z0-9_]+)")


@dataclasses.dataclass(frozen=True)
class Expression:
    place: str
    text: str
    instant: bool = False

    def filled(self, model, rate_interval_s, range_s):
        """`model` is what $model_name becomes: a name, or All's own value."""
        text = self.text.replace("$__rate_interval", f"{rate_interval_s}s").replace("$__range", f"{range_s}s").replace("$model_name", model)
        if "$" in text:
            raise SystemExit(f"{self.place}: a variable that this test does not know: {text}")
        return text


def of_dashboard(path):
    board = json.loads(path.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield Expression(f"{path.stem} / {panel['title']} / {target['refId']}", target["expr"], target["instant"])


def variables(path):
    """(variable, series, label) of every variable that asks for a label's values."""
    for variable in json.loads(path.read_text())["templating"]["list"]:
        if variable["type"] == "query":
            series, label = re.fullmatch(r"label_values\(([^,]+), (\w+)\)", variable["query"]["query"]).groups()
            yield f"{path.stem} / ${variable['name']}", series, label


def of_list(path):
    return [Expression(f"{path.stem} / {each['title']}", each["expr"]) for each in json.loads(path.read_text())]


def without_comparison(text):
    """The same with every comparison made `bool`: it answers 0 or 1 and drops nothing, so there is data exactly where both its sides
    have some. An alert that could never fire, for want of a series, has none; one that merely does not fire has."""
    return COMPARISON.sub(lambda found: f"{found[0]} bool" if found[1] else found[0], text)


def misuses(text, types):
    """What is wrong with an expression whatever the data: rates of what is no counter, counters without a rate, lost buckets."""
    family = lambda name: name if name in types else re.sub(r"_(bucket|sum|count)$", "", name)
    growing = set(GROWTH.findall(text))
    for name in sorted(set(USED.findall(text))):
        kind = types.get(family(name))
        if kind is None:
            yield f"{name}: the service has no such series"
        elif name in growing and kind == "gauge":
            yield f"{name} is a gauge and has no rate"
        elif name not in growing and kind != "gauge" and name not in SINCE_START:
            yield f"{name} is a {kind} and needs a rate"
    for quantile in re.findall(r"histogram_quantile\([^,]+,\s*(\S+ by \([^)]*\))", text):
        if not re.search(r"\ble\b", quantile):
            yield f"a quantile without its buckets: {quantile}"
    if "histogram_quantile" in text and "_bucket" not in text:
        yield "a quantile of no buckets"


# Counters that are meant as they are: that it happened at all since the start is what counts.
SINCE_START = {"coxswain:invariant_violations_total"}
