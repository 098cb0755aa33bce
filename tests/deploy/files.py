"""What can be said of deploy/'s files without running anything: each by the tool that it is for, where this machine has that."""
import json
import plistlib
import re
import shutil
import subprocess
import xml.etree.ElementTree

import schema


def tool(report, what, *command, cwd=None):
    """Runs it, and takes its word. Tools that only tell an operator something may be missing."""
    if not shutil.which(command[0]):
        report.say(f"skipped, for want of {command[0]}: {what}")
        return None
    ran = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=120)
    report.check(ran.returncode == 0, f"{what}: {' '.join((ran.stdout + ran.stderr).split())[:600]}")
    return ran.stdout + ran.stderr


def check(report, deploy, scratch):
    report.check(subprocess.run(["python3", deploy / "grafana/build.py", "--check"]).returncode == 0, "dashboards are what build.py makes")
    rules = deploy / "prometheus"
    tool(report, "prometheus.yml", "promtool", "check", "config", rules / "prometheus.yml")
    tool(report, "rules.yml", "promtool", "check", "rules", rules / "rules.yml")
    tool(report, "rules_test.yml", "promtool", "test", "rules", rules / "rules_test.yml")
    untested(report, rules)
    agent(report, deploy / "io.coxswain.serve.plist")
    tool(report, "the formula's syntax", "ruby", "-c", deploy / "homebrew/coxswain.rb")
    unit(report, deploy / "coxswain.service")
    images = dict(re.findall(r"image: (\S+):(\S+)", (deploy / "compose.yaml").read_text()))
    pinned = [tag for tag in images.values() if re.fullmatch(r"v?\d+\.\d+\.\d+", tag)]
    report.check(len(pinned) == len(images) == 2, f"images are pinned to a version: {images}")
    boards = sorted((deploy / "grafana/dashboards").glob("*.json"))
    for board in boards:
        laid(report, board)
    schema.check(report, boards, images["grafana/grafana"], scratch / "schema")


def laid(report, path):
    """No panel lies on another or beyond the edge, and each has a number of its own."""
    panels = json.loads(path.read_text())["panels"]
    taken = [(x, y) for p in panels for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
             for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])]
    report.check(len(taken) == len(set(taken)) and max(x for x, _ in taken) < 24, f"{path.name}: every panel has a place of its own")
    report.check(len({p["id"] for p in panels}) == len(panels), f"{path.name}: every panel has a number of its own")


def untested(report, rules):
    """Every alert has a test in which it fires and one in which it is silent."""
    tests = re.findall(r"alertname: (\w+)\n\s+eval_time: \S+\n\s+exp_alerts:( \[\])?", (rules / "rules_test.yml").read_text())
    for alert in re.findall(r"- alert: (\w+)", (rules / "rules.yml").read_text()):
        found = {bool(silent) for name, silent in tests if name == alert}
        report.check(found == {True, False}, f"{alert} has a test that it fires and one that it is silent: {found}")


def agent(report, path):
    job = plistlib.loads(path.read_bytes())
    report.check(job["Label"] == path.stem, "the launchd job is called as its file")
    report.check(job["ProgramArguments"][1] == "serve" and job["KeepAlive"] is True and job["ExitTimeOut"] > 30, "launchd keeps it alive, and lets it drain")
    # Apple's own parser is stricter about comments than Python's.
    xml.etree.ElementTree.parse(path)


def unit(report, path):
    said = tool(report, "the unit's exposure", "systemd-analyze", "security", "--offline=true", "--threshold=20", path)
    if said:
        report.say(re.search(r"Overall exposure level.*: ([\d.]+)", said)[0])
        said = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
        # The binary is not installed where this runs.
        ours = [line for line in said.stderr.splitlines() if path.name in line and "is not executable" not in line]
        report.check(not ours, f"the unit says nothing that systemd does not know: {ours}")


def told(report, alerts, readme):
    """Every alert says what it is about, what to do, and where more is told."""
    headings = set(re.findall(r"^#+ (\w+)$", readme.read_text(), re.M))
    for alert in alerts:
        missing = {"summary", "description", "runbook"} - {key for key, text in alert["annotations"].items() if text.strip()}
        report.check(not missing, f"{alert['name']} has no {missing}")
        report.check(alert["name"] in headings, f"deploy/README.md has no section {alert['name']}")
        report.check(f"Section {alert['name']}." in alert["annotations"].get("runbook", ""), f"{alert['name']}'s runbook names its section")


def documented(series_page):
    """Types of the series that metrics/README.md lists."""
    return dict(re.findall(r"^\| `([^`]+)` \| (\w+) \|", series_page.read_text(), re.M))


def shown(expressions, types):
    """Series that no panel and no rule asks for."""
    text = json.dumps(expressions)
    return sorted(name for name in types if not re.search(rf"\b{re.escape(name)}(_bucket|_sum|_count)?\b", text))
