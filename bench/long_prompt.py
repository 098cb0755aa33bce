"""A long prompt among streams: how long they stall for it, held against a chunk's own time, and when it starts.

usage: long_prompt.py BINARY [--streams 8] [--tokens 6000] [--chunk 512]

Serves the default model, lets the streams run, then asks with the long prompt. Prints the gaps between a stream's tokens before and
while the prompt is read, the time of one chunk beside the same streams, and how long the prompt waited for its first one.
"""
import argparse
import json
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

WORDS = "the harbour master keeps a book of every ship that comes and goes with its cargo crew and debts".split()


def text(words, first):
    """As many words, which begin with their own number so that no prefix is shared. A word of these is a token."""
    return f"{first} " + " ".join(WORDS[(first + i) % len(WORDS)] for i in range(words))


class Server:
    def __init__(self, binary, options):
        self.process = subprocess.Popen([binary, "serve", "--port", "0", *options], stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if found := re.search(r"serving .* on (http://\S+)", line):
                self.url = found[1]
                break
        else:
            raise SystemExit("the server ended before it served")
        # Its log is read to the end, so that it never waits for a reader.
        threading.Thread(target=lambda: [None for _ in self.process.stdout], daemon=True).start()

    def stream(self, content, max_tokens, times):
        """Asks and notes when each piece of text came."""
        body = {"messages": [{"role": "user", "content": content}], "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "stream": True}
        body["stream_options"] = {"include_usage": True}
        ask = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
        usage = None
        with urllib.request.urlopen(ask) as answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                usage = event.get("usage") or usage
                # The last event of a stream that is cut at the end of the bench is an error, and has none.
                if event.get("choices") and event["choices"][0]["delta"].get("content"):
                    times.append(time.perf_counter())
        return usage

    def queued(self):
        """Seconds that requests waited for admission, all together."""
        with urllib.request.urlopen(self.url + "/metrics") as page:
            return sum(map(float, re.findall(r"^vllm:request_queue_time_seconds_sum\S* (\S+)", page.read().decode(), re.M)))


def gaps(streams, begin, end):
    """Milliseconds between pieces of one stream that overlap this time, all streams together."""
    return [1e3 * (b - a) for times in streams for a, b in zip(times, times[1:]) if b > begin and a < end]


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("binary")
    args.add_argument("--streams", type=int, default=8)
    args.add_argument("--tokens", type=int, default=6000)
    args.add_argument("--chunk", type=int, default=512)
    args = args.parse_args()
    server = Server(args.binary, ["--prefill-chunk", str(args.chunk), "--kv-budget", "1GB"])
    try:
        streams = [[] for _ in range(args.streams)]
        running = [threading.Thread(target=server.stream, args=(text(8, i), 1000, times), daemon=True) for i, times in enumerate(streams)]
        for thread in running:
            thread.start()
        while min(map(len, streams)) < 30:
            time.sleep(0.05)
        quiet = time.perf_counter()
        before = gaps(streams, 0, quiet)
        one = []
        server.stream(text(args.chunk - 60, 100), 1, one)
        chunk_ms = 1e3 * (one[0] - quiet)
        while min(sum(t > one[0] for t in times) for times in streams) < 5:
            time.sleep(0.05)
        queued, begin, first = server.queued(), time.perf_counter(), []
        usage = server.stream(text(args.tokens - 50, 200), 1, first)
        queued_ms = 1e3 * (server.queued() - queued)
        during = gaps(streams, begin, first[0])
    finally:
        server.process.terminate()
        server.process.wait()
    prompt = usage["prompt_tokens"]
    chunks = -(-prompt // args.chunk)
    total_ms = 1e3 * (first[0] - begin)
    print(f"{args.streams} streams, a prompt of {prompt} tokens in chunks of {args.chunk}")
    print(f"gap between tokens before: p50 {statistics.median(before):.0f} ms, largest {max(before):.0f} ms")
    print(f"gap while it is read:      p50 {statistics.median(during):.0f} ms, largest {max(during):.0f} ms")
    print(f"a chunk at the start of a prompt, beside the streams: {chunk_ms:.0f} ms; the prompt: {total_ms:.0f} ms, {total_ms / chunks:.0f} ms for each of {chunks} chunks")
    print(f"ratio of the largest gap to the mean chunk (later ones take longer): {max(during) / (total_ms / chunks):.2f}; the prompt waited {queued_ms:.0f} ms, {queued_ms / chunk_ms:.2f} of a chunk")


if __name__ == "__main__":
    sys.exit(main())
