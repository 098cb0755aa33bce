"""Compares coxswain with mlx-lm's server: same model folder, same MLX, same client, one server at a time.

usage: bench.py --coxswain BINARY --model DIR [--write] [--rounds N] [--concurrency 1,8,16] [--only mlx_lm.server] …

Each round starts one server, then the other; within a round each number of clients is warmed up and measured by
`BINARY loadtest`. With several rounds the best of each is compared, because another program on the machine can only slow a
round down. Answers are greedy and long: where one ended before --max-tokens, the table says so.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version

import plot
import servers
import table

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("--coxswain", metavar="BINARY", help="a release build; not needed with --only mlx_lm.server")
    args.add_argument("--coxswain-options", default="serve --model {model} --port {port}", help="how BINARY serves")
    args.add_argument("--loadtest", metavar="BINARY", help="the client, if not `COXSWAIN loadtest`")
    args.add_argument("--model", metavar="DIR", required=True, help="a folder that both load, see oracle/model.sh")
    args.add_argument("--prompts", default=os.path.join(HERE, "prompts.jsonl"))
    args.add_argument("--concurrency", default="1,8,16", help="numbers of clients, with commas")
    args.add_argument("--max-tokens", type=int, default=64)
    args.add_argument("--waves", type=int, default=3, help="requests of each client")
    args.add_argument("--rounds", type=int, default=1)
    args.add_argument("--only", choices=["coxswain", "mlx_lm.server"])
    args.add_argument("--json", metavar="FILE", help="write every report here")
    args.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md, and a plot beside it")
    args = args.parse_args()
    if not args.coxswain and args.only != "mlx_lm.server":
        raise SystemExit("--coxswain is needed, or --only mlx_lm.server")
    if not args.coxswain and not args.loadtest:
        raise SystemExit("--loadtest is needed where there is no --coxswain")
    if args.only and args.write:
        raise SystemExit("--write needs both servers")
    return args


def measure(client, running, args, clients, folder):
    """The load test's report for one number of clients."""
    out = os.path.join(folder, "report.json")
    # mlx-lm's server takes the folder's path for a model id; coxswain names what it serves.
    model = [] if running.server.name == "coxswain" else ["--model", "default_model"]
    command = [
        *client, running.url, *model, "--prompts", args.prompts, "--json", out,
        "--concurrency", str(clients), "--requests", str(clients * args.waves), "--warmup", str(clients),
        "--max-tokens", str(args.max_tokens), "--temperature", "0",
        *(["--ignore-eos"] if running.server.ignores_eos else []),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    # 1 says that some requests failed. The report counts them and the table names them; they do not end the comparison.
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}\n{running.tail()}")
    with open(out) as f:
        report = only_run(json.load(f))
    if report["done"] == 0:
        raise SystemExit(f"{running.server.name} answered nothing:\n{done.stdout}\n{running.tail()}")
    return report


def only_run(report):
    """Of a report as loadtest writes it now; another version means something else."""
    if report.get("version") != 2:
        raise SystemExit(f"the load test's report has version {report.get('version')}, this reads 2: is the binary of this tree?")
    [run] = report["runs"]
    # What each request took is of no use here, and most of the file.
    return {name: value for name, value in run.items() if name not in ("rows", "quantiles")}


def machine():
    cpu = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as f:
            cpu = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), cpu)
    elif sys.platform == "darwin":
        cpu = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True).stdout.strip()
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}; MLX {version('mlx')}, mlx-lm {version('mlx-lm')}"


def main():
    args = arguments()
    levels = [int(n) for n in args.concurrency.split(",")]
    client = [args.loadtest] if args.loadtest else [args.coxswain, "loadtest"]
    contestants = [servers.mlx_lm(sys.executable)]
    if args.coxswain:
        contestants.insert(0, servers.coxswain(args.coxswain, args.coxswain_options))
    contestants = [c for c in contestants if args.only in (None, c.name)]
    reports = {c.name: {n: [] for n in levels} for c in contestants}
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.rounds):
            # Every other round the other way round: the second to run would else always find the machine warmer.
            for contestant in contestants if turn % 2 == 0 else contestants[::-1]:
                log = os.path.join(folder, contestant.name + ".log")
                with servers.Running(contestant, args.model, max(levels), log) as running:
                    for n in levels:
                        busy = os.getloadavg()[0]
                        report = measure(client, running, args, n, folder)
                        reports[contestant.name][n].append(report | {"machine_load_before": busy})
                        print(table.line(contestant.name, n, report, busy), flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(reports, f, indent=1)
    text = table.markdown(reports, levels, args.max_tokens)
    print("\n" + text)
    if args.write:
        docs = os.path.join(HERE, "..", "docs")
        command = "make bench ARGS=--write"
        picture = os.path.join(docs, "benchmarks.svg")
        with open(picture, "w") as f:
            f.write(plot.svg(reports, levels, command))
        page = os.path.join(docs, "benchmarks.md")
        table.write(page, text + "\n![Output against clients](benchmarks.svg)\n", machine(), command)
        print("wrote", os.path.normpath(page), "and", os.path.normpath(picture))


if __name__ == "__main__":
    main()
