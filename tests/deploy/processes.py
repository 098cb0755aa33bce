"""The service and Prometheus as contexts: ready inside, ended by their process ids after, whatever happened in between."""
import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

PORTS = range(18100, 18200)
READY_S_MAX = 120
END_S_MAX = 40


def free_port():
    for port in PORTS:
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise SystemExit(f"no port of {PORTS.start} to {PORTS.stop - 1} is free")


def get(url, timeout_s=10):
    with urllib.request.urlopen(url, timeout=timeout_s) as page:
        return page.read().decode()


def until(what, holds, within_s, every_s=0.25):
    """Asks until it holds, and gives what it gave then."""
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise SystemExit(f"deploy: not within {within_s} s: {what}")
        time.sleep(every_s)
    return found


class Process:
    def __init__(self, command, log, ready, env=None):
        self.command, self.log, self.ready, self.env = [str(word) for word in command], log, ready, env

    def __enter__(self):
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.env)
        try:
            until(f"{self.command[0]} answers on {self.ready}; its log ends:\n{self.tail()}", self._is_ready, READY_S_MAX)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _is_ready(self):
        if self.process.poll() is not None:
            raise SystemExit(f"{self.command[0]} ended with {self.process.returncode}:\n{self.tail()}")
        try:
            return get(self.ready, timeout_s=5)
        except OSError:
            return None  # it does not listen yet, or says that it is not ready

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def tail(self):
        with open(self.log) as f:
            return "".join(f.readlines()[-20:])


class Service(Process):
    def __init__(self, binary, options, log, env):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        super().__init__([binary, "serve", "--port", self.port, *options], log, self.url + "/readyz", env)

    def stats(self):
        return json.loads(get(self.url + "/stats"))

    def metrics(self):
        return get(self.url + "/metrics")

    def value(self, series, *matchers):
        """The sum of a series' samples, straight from the page."""
        lines = re.findall(rf"^{re.escape(series)}(?:\{{(.*)\}})? (\S+)$", self.metrics(), re.M)
        return sum(float(value) for labels, value in lines if all(m in labels for m in matchers))


class Prometheus(Process):
    """Prometheus with a copy of the shipped configuration, in which the target and the intervals are others and nothing else is."""

    def __init__(self, shipped, folder, target, interval):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        config = (shipped / "prometheus.yml").read_text()
        for pattern, instead in [(r'targets: \["[^"]+"\]', f'targets: ["{target}"]'), (r"scrape_interval: \S+", f"scrape_interval: {interval}"),
                                 (r"evaluation_interval: \S+", f"evaluation_interval: {interval}")]:
            config, found = re.subn(pattern, instead, config)
            if found != 1:
                raise SystemExit(f"prometheus.yml has {found} lines like {pattern}")
        (folder / "prometheus.yml").write_text(config)
        (folder / "rules.yml").write_text((shipped / "rules.yml").read_text())
        command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
        super().__init__(command, folder / "prometheus.log", self.url + "/-/ready")

    def ask(self, path, **fields):
        try:
            answer = get(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(fields, doseq=True)}")
        except urllib.error.HTTPError as error:
            with error:
                answer = error.read().decode()
        return json.loads(answer)

    def points(self, text, at, since=None):
        """How many numbers it answers with that are any, and how many at all; or what it complains of. NaN is no data: it is what a
        quantile of nothing observed is, and what Grafana leaves out."""
        answer = self.ask("query_range", query=text, start=since, end=at, step=2) if since else self.ask("query", query=text, time=at)
        if answer["status"] != "success":
            return 0, 0, answer["error"]
        values = [point[1] for one in answer["data"]["result"] for point in (one["values"] if since else [one["value"]])]
        return sum(value not in ("NaN", "+Inf", "-Inf") for value in values), len(values), None
