"""The two servers of the comparison: how each is started, when it is ready, how it ends."""
import dataclasses
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

READY_S_MAX = 300
END_S_MAX = 30


@dataclasses.dataclass(frozen=True)
class Server:
    name: str
    command: list[str]  # {model}, {port} and {rows} are filled in
    ready_path: str
    ignores_eos: bool  # knows the request field ignore_eos


def mlx_lm(python):
    """mlx-lm's server with room for every client in one batch, for prompts as for answers, and without a log line a request."""
    options = "--host 127.0.0.1 --port {port} --log-level WARNING --decode-concurrency {rows} --prompt-concurrency {rows}"
    return Server("mlx_lm.server", [python, "-m", "mlx_lm", "server", "--model", "{model}", *options.split()], "/health", False)


def coxswain(binary, options):
    return Server("coxswain", [binary, *options.split()], "/readyz", True)


class Running:
    """A server as a context: ready inside, ended by its process id after. What it printed is in `log`."""

    def __init__(self, server, model, rows, log):
        self.server, self.log = server, log
        # Somebody else could take the port before the server does; then it does not start, and says so.
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        fill = {"{model}": model, "{port}": str(port), "{rows}": str(rows)}
        self.command = [fill.get(word, word) for word in server.command]

    def __enter__(self):
        # A model on disk needs no hub: without this mlx-lm's server may look for it on the network.
        environment = dict(os.environ, HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
        try:
            self._wait_until_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._end()

    def _wait_until_ready(self):
        deadline = time.monotonic() + READY_S_MAX
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise SystemExit(f"{self.server.name} ended with {self.process.returncode}:\n{self.tail()}")
            try:
                with urllib.request.urlopen(self.url + self.server.ready_path, timeout=5):
                    return
            except urllib.error.HTTPError as error:
                error.close()  # it answers, and is not ready
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass  # nobody listens yet
            time.sleep(0.2)
        raise SystemExit(f"{self.server.name} was not ready within {READY_S_MAX} s:\n{self.tail()}")

    def _end(self):
        self.process.terminate()
        try:
            self.process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            print(f"{self.server.name} did not end when asked to; killing it", file=sys.stderr)
            self.process.kill()
            self.process.wait()

    def tail(self):
        with open(self.log) as f:
            return "".join(f.readlines()[-20:])
