"""The dashboards as Grafana's own schema sees them: the types that Grafana publishes, and TypeScript's compiler.

A compiler that says nothing proves nothing, so a few broken dashboards go the same way, and each must be refused."""
import copy
import json
import pathlib
import re
import shutil
import subprocess

HERE = pathlib.Path(__file__).parent / "schema"


def packages(folder):
    """Grafana's schema and the compiler under `folder`, fetched once; the lock file has their versions and what they must hash to."""
    folder.mkdir(parents=True, exist_ok=True)
    fetched = folder / "node_modules/.package-lock.json"
    stale = not fetched.exists() or (folder / "package-lock.json").read_bytes() != (HERE / "package-lock.json").read_bytes()
    for each in HERE.iterdir():
        shutil.copy(each, folder)
    if stale:
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True)


def broken(board):
    """(what is wrong, a dashboard in which it is)."""

    def but(what, change):
        other = copy.deepcopy(board)
        change(other)
        return what, other

    graph = lambda b: next(p for p in b["panels"] if p["type"] == "timeseries")
    yield but("a way of drawing that there is not", lambda b: graph(b)["fieldConfig"]["defaults"]["custom"].update(drawStyle="wiggle"))
    yield but("a misspelt field of a query", lambda b: graph(b)["targets"][0].update(exprr="up"))
    yield but("a misspelt option", lambda b: graph(b)["options"].update(legnd={}))
    yield but("a kind of panel that there is not", lambda b: graph(b).update(type="singlestat"))
    yield but("a panel without a place", lambda b: graph(b).pop("gridPos"))
    yield but("a width in words", lambda b: graph(b)["gridPos"].update(w="eight"))
    yield but("a variable that refreshes never seen", lambda b: b["templating"]["list"][1].update(refresh=7))
    yield but("a misspelt field of the dashboard", lambda b: b.update(timezon="browser"))


def check(report, dashboards, grafana_version, folder):
    packages(folder)
    schema = folder / "node_modules/@grafana/schema"
    version = json.loads((schema / "package.json").read_text())["version"]
    report.check(version == grafana_version, f"compose.yaml runs Grafana {grafana_version}, and the schema is {version}'s")
    newest = int(re.search(r"schemaVersion: (\d+)", (schema / "dist/esm/raw/dashboard/x/types.gen.mjs").read_text())[1])
    cases = {path.stem: (path.name, json.loads(path.read_text())) for path in dashboards}
    for name, board in cases.values():
        report.check(board["schemaVersion"] == newest, f"{name} is of schema version {board['schemaVersion']}, and Grafana's is {newest}")
    bad = {f"broken_{i}": case for i, case in enumerate(broken(cases["service"][1]))}
    files = []
    for stem, (_, board) in {**cases, **bad}.items():
        (folder / f"{stem}.ts").write_text(f'import type {{ Dashboard }} from "./dashboard";\nexport const board: Dashboard = {json.dumps(board, indent=1)};\n')
        files.append(f"{stem}.ts")
    config = json.loads((folder / "tsconfig.json").read_text())
    (folder / "tsconfig.json").write_text(json.dumps({**config, "files": files}))
    said = subprocess.run(["node_modules/.bin/tsc", "--pretty", "false", "-p", "."], cwd=folder, capture_output=True, text=True).stdout
    errors = {stem: re.findall(rf"^{stem}\.ts.*", said, re.M) for stem in [*cases, *bad]}
    strangers = [line for line in said.splitlines() if re.match(r"\S+\(\d+,\d+\): error", line) and line.split("(")[0][:-3] not in errors]
    report.check(not strangers, f"the schema itself does not compile: {strangers[:2]}")
    for stem, (name, _) in cases.items():
        report.check(not errors[stem], f"{name} is not what Grafana takes: {errors[stem][:3]}")
    for stem, (what, _) in bad.items():
        report.check(errors[stem], f"the schema's check lets pass {what}")
    report.say(f"Grafana's schema {version} takes {len(cases)} dashboards and refuses {len(bad)} broken ones")
