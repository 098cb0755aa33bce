"""The service under test: a process of its own on a free port, ended by its id, whatever happened in between."""
import json
import os
import pathlib
import re
import subprocess
import time
import urllib.request

PATIENCE_S = 120
END_S_MAX = 30
# Looked up by what it says, not at an address that was free a moment ago.
SERVING = re.compile(r"serving .*on (http://127\.0\.0\.1:\d+)")


def until(what, holds, within_s=PATIENCE_S):
    """Asks until it holds, and gives what it gave then."""
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.05)
    return found


class Service:
    """Serves the default model, or another with --model. It has no tools of its own, so it is told whose way of calling them it is to write."""

    def __init__(self, folder, *options):
        self.log = pathlib.Path(folder) / "service.log"
        command = [os.environ["COXSWAIN_BINARY"], "serve", "--port", "0", "--kv-budget", "300MB", "--tool-parser", "hermes", "--drain-timeout", "1", *options]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "RUST_LOG": "info"})
        try:
            self.url = until("the service serves", self._address)
        except BaseException:
            self.end()
            raise

    def _address(self):
        text = self.log.read_text()
        assert self.process.poll() is None, f"the service ended:\n{text}"
        found = SERVING.search(re.sub(r"\x1b\[[0-9;]*m", "", text))
        return found and found[1]

    def end(self):
        """True if it ended well."""
        self.process.terminate()
        try:
            return self.process.wait(END_S_MAX) == 0
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as page:
            return page.read().decode()

    def stats(self):
        return json.loads(self.get("/stats"))

    def idle(self):
        """Waits until no row runs, waits or is shown."""
        until("every row is freed", lambda: (s := self.stats())["running"] == s["waiting"] == len(s["rows"]) == 0)


def new_key(name, more=""):
    """An entry for the keys file, and its secret."""
    made = subprocess.run([os.environ["COXSWAIN_BINARY"], "key", name], capture_output=True, text=True, check=True)
    return made.stdout + more + "\n", re.search(r"sk-\S+", made.stderr)[0]
