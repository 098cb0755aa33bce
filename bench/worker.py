"""What the worker process costs, and what it spares: the same load with the model in a process of its own and in the server's.

usage: worker.py BINARY [--rounds 5] [--probes 200] [--streams 1,16]

Throughput: closed loops of 1 and of 16 streams, with and without --in-process in turns, tokens a second; the ratio is of the medians.
Probes: /health, /metrics and /v1/models while a prompt of 6,000 tokens is read, in both.
"""
import argparse
import contextlib
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


@contextlib.contextmanager
def serving(binary, options):
    server = Server(binary, options)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait()


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("binary")
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--probes", type=int, default=200)
    args.add_argument("--streams", default="1,16")
    args = args.parse_args()
    options = {"process": ["--kv-budget", "1GB", "--no-prefix-cache"], "in-process": ["--kv-budget", "1GB", "--no-prefix-cache", "--in-process"]}
    widths = [int(n) for n in args.streams.split(",")]
    found = {(name, streams): [] for name in options for streams in widths}
    for turn in range(args.rounds):
        # Each goes first in every other round. Both begin anew each time: where a process's memory happens to lie makes it several
        # percent faster or slower for life.
        for name in list(options)[:: 1 if turn % 2 else -1]:
            with serving(args.binary, options[name]) as server:
                for streams in widths:
                    throughput(server, streams, 10)
                    found[name, streams].append(throughput(server, streams, 100))
    for streams in widths:
        own, shared = found["process", streams], found["in-process", streams]
        middle = statistics.median(own), statistics.median(shared)
        spread = ", ".join(f"{a / b:.2f}" for a, b in zip(own, shared))
        print(f"{streams} streams: {middle[0]:.1f} tokens a second in a process of its own, {middle[1]:.1f} in the server's:"
              f" ratio {middle[0] / middle[1]:.3f} (medians of {args.rounds}; round by round {spread})", flush=True)
    for name in options if args.probes else ():
        with serving(args.binary, options[name]) as server:
            took = probe(server, args.probes, 6000)
        at = lambda share: took[min(len(took) - 1, int(share * len(took)))]
        print(f"{name}: {len(took)} probes while 6,000 tokens are read: p50 {at(0.5):.1f}, p99 {at(0.99):.1f}, most {took[-1]:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
