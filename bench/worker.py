"""What the worker process costs, and what it spares: the same load with the model in a process of its own and in the server's.

usage: worker.py BINARY [--rounds 5] [--probes 200] [--streams 1,16]

Throughput: closed loops of 1 and of 16 streams, with and without --in-process in turns, tokens a second; the ratio is of the medians.
Probes: /health, /metrics and /v1/models while a prompt of 6,000 tokens is read, in both.
"""
import argparse
import json
import statistics
import threading
import time
import urllib.request

from long_prompt import Server, text


def throughput(server, streams, tokens):
    """Output tokens a second of so many streams at once, each with its own prompt."""
    times = [[] for _ in range(streams)]
    begin = time.perf_counter()
    running = [threading.Thread(target=server.stream, args=(text(8, i), tokens, times[i])) for i in range(streams)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return streams * tokens / (time.perf_counter() - begin)


def probe(server, probes, prompt_tokens):
    """Milliseconds that each page took while the prompt was read."""
    done = threading.Event()

    def ask():
        while not done.is_set():
            server.stream(text(prompt_tokens, 7000 + len(took)), 1, [])

    took = []
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    while json.load(urllib.request.urlopen(server.url + "/stats"))["steps_in_flight"] == 0:
        time.sleep(0.01)
    for i in range(probes):
        page = ["/health", "/metrics", "/v1/models"][i % 3]
        begin = time.perf_counter()
        urllib.request.urlopen(server.url + page).read()
        took.append(1e3 * (time.perf_counter() - begin))
        time.sleep(0.02)
    done.set()
    return sorted(took)


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("binary")
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--probes", type=int, default=200)
    args.add_argument("--streams", default="1,16")
    args = args.parse_args()
    options = ["--kv-budget", "1GB", "--no-prefix-cache"]
    servers = {"process": Server(args.binary, options), "in-process": Server(args.binary, [*options, "--in-process"])}
    try:
        for streams, tokens in [(int(n), 100) for n in args.streams.split(",")]:
            found = {name: [] for name in servers}
            for server in servers.values():
                throughput(server, streams, 10)
            for turn in range(args.rounds):
                # Each goes first in every other round.
                for name, server in list(servers.items())[:: 1 if turn % 2 else -1]:
                    found[name].append(throughput(server, streams, tokens))
            middle = {name: statistics.median(each) for name, each in found.items()}
            print(f"{streams} streams: {middle['process']:.1f} tokens a second in a process of its own, {middle['in-process']:.1f} in the server's:"
                  f" ratio {middle['process'] / middle['in-process']:.3f} (medians of {args.rounds})", flush=True)
        for name, server in servers.items() if args.probes else ():
            took = probe(server, args.probes, 6000)
            at = lambda share: took[min(len(took) - 1, int(share * len(took)))]
            print(f"{name}: {len(took)} probes while 6,000 tokens are read: p50 {at(0.5):.1f}, p99 {at(0.99):.1f}, most {took[-1]:.1f} ms", flush=True)
    finally:
        for server in servers.values():
            server.process.terminate()


if __name__ == "__main__":
    main()
