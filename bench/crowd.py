"""A crowd of slow readers, and a full queue: what ordinary clients feel of the one, and what one too many is told of the other.

usage: crowd.py BINARY [--slow 2000] [--clients 8] [--queue 64] [--part slow|full]

slow: as many connections as said ask for a stream of 40 tokens and read nothing of it. Ordinary clients are measured before they come and while
all of them stay: time of a whole answer of 20 tokens. The model is tiny (random weights), so that the service and not the model is measured.
full: rows and queue are filled, and refilled until some have ended. One request more is refused; its time and its Retry-After are held against the
time until all that were there have gone.
"""
import argparse
import json
import pathlib
import resource
import socket
import statistics
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/clients"))
import tiny  # noqa: E402
from long_prompt import Server  # noqa: E402

ROWS = 16


def body(tokens, **more):
    return json.dumps({"prompt": "a", "max_tokens": tokens, "ignore_eos": True, **more}).encode()


def ask(server, tokens):
    """Seconds of a whole answer."""
    request = urllib.request.Request(server.url + "/v1/completions", body(tokens), {"content-type": "application/json"})
    begin = time.perf_counter()
    with urllib.request.urlopen(request, timeout=300) as answer:
        answer.read()
    return time.perf_counter() - begin


def stats(server):
    with urllib.request.urlopen(server.url + "/stats") as page:
        return json.load(page)


def measure(server, clients, rounds):
    """Times of answers of clients that ask one after another, milliseconds, sorted."""
    took, lock = [], threading.Lock()

    def client():
        for _ in range(rounds):
            one = ask(server, 20)
            with lock:
                took.append(1e3 * one)

    running = [threading.Thread(target=client) for _ in range(clients)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sorted(took)


def slow_reader(host, port):
    """Asks, and never reads. A small buffer, as a client far away has."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((host, port))
    text = body(40, stream=True)
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(text) + text)
    return connection


def crowd(server, slow, clients):
    host, port = server.url.removeprefix("http://").split(":")
    measure(server, clients, 5)
    before = measure(server, clients, 40)
    connections = []
    while len(connections) < slow:
        connections += [slow_reader(host, int(port)) for _ in range(min(500, slow - len(connections)))]
        while (now := stats(server))["running"] + now["waiting"] > 0:
            time.sleep(0.05)
    beside = measure(server, clients, 40)
    for connection in connections:
        connection.setblocking(False)
    there = sum(connection.recv(1) == b"H" for connection in connections)
    p = lambda times, share: times[int(share * (len(times) - 1))]
    print(f"{clients} clients alone: answer p50 {p(before, 0.5):.1f} ms, p99 {p(before, 0.99):.1f} ms")
    print(f"beside {there} connections that read nothing: p50 {p(beside, 0.5):.1f} ms, p99 {p(beside, 0.99):.1f} ms; ratio of p50 {p(beside, 0.5) / p(before, 0.5):.2f}, of means {statistics.mean(beside) / statistics.mean(before):.2f}")
    for connection in connections:
        connection.close()


def full(server, queue):
    alive, lock = set(), threading.Lock()

    def hold(i):
        with lock:
            alive.add(i)
        try:
            ask(server, 1000 + 100 * (i % 8))
        finally:
            with lock:
                alive.discard(i)

    house = ROWS // 4 + queue
    started = 0
    threads = []

    def fill():
        nonlocal started
        while (now := stats(server))["running"] + now["waiting"] < house:
            for _ in range(house - now["running"] - now["waiting"]):
                threads.append(threading.Thread(target=hold, args=(started,), daemon=True))
                threads[-1].start()
                started += 1
            time.sleep(0.2)

    fill()
    while started < house + ROWS:
        time.sleep(0.1)
        fill()
    times = []
    for _ in range(20):
        fill()
        request = urllib.request.Request(server.url + "/v1/completions", body(5), {"content-type": "application/json"})
        begin = time.perf_counter()
        try:
            urllib.request.urlopen(request).read()
        except urllib.error.HTTPError as error:
            times.append(1e3 * (time.perf_counter() - begin))
            told, status = int(error.headers["retry-after"]), error.code
    with lock:
        here = set(alive)
    begin = time.perf_counter()
    while here & alive:
        time.sleep(0.05)
    truth = time.perf_counter() - begin
    print(f"{house} requests fill {ROWS // 4} rows and a queue of {queue}; one more: {status} in {statistics.median(times):.1f} ms (median of {len(times)}, largest {max(times):.1f})")
    print(f"Retry-After {told} s; those that were there had gone after {truth:.1f} s; ratio {told / truth:.2f}")


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("binary")
    args.add_argument("--slow", type=int, default=2000)
    args.add_argument("--clients", type=int, default=8)
    args.add_argument("--queue", type=int, default=64)
    args.add_argument("--part", choices=["slow", "full"])
    args = args.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * args.slow + 200)), hard))
    with tempfile.TemporaryDirectory() as folder:
        model = str(tiny.make(pathlib.Path(folder) / "model"))
        if args.part != "full":
            server = Server(args.binary, ["--model", model, "--kv-budget", "64MB", "--batch", str(ROWS)])
            try:
                crowd(server, args.slow, args.clients)
            finally:
                server.process.terminate()
                server.process.wait(60)
        if args.part != "slow":
            server = Server(args.binary, ["--model", model, "--kv-budget", "64MB", "--batch", str(ROWS // 4), "--queue", str(args.queue), "--drain-timeout", "1"])
            try:
                full(server, args.queue)
            finally:
                server.process.terminate()
                server.process.wait(60)


if __name__ == "__main__":
    main()
