"""The load: clients of two keys that ask in closed loops, one that leaves early, two that are refused, and a model that is killed."""
import http.client
import json
import os
import signal
import threading

from processes import until

WORDS = "the harbour master keeps a book of every ship that comes and goes with its cargo crew and debts".split()
# Longer than a block of KV memory, so that there is a prefix to share.
SYSTEM = "You are the harbour master's clerk. " + " ".join(WORDS * 3)
CLIENTS_OF_A_KEY = 3
ANSWERS_BEFORE = 6
ANSWERS_AFTER = 6
# A row is admitted if its next block is there. These take one block at first and three in the end, so that five of them, admitted
# together, outgrow a pool of 11 blocks: then a row is preempted.
BUDGET, BATCH = "18MB", 6
GROWING, GROWING_TOKENS = 5, 76


def body(number, max_tokens):
    """A request of its own length, so that histograms have more than one bucket."""
    question = " ".join(WORDS[(number + i) % len(WORDS)] for i in range(8 + 8 * (number % 4)))
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"{number} {question}"}]
    return {"messages": messages, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "stream": True}


def growing(number):
    return {"messages": [{"role": "user", "content": f"{number}"}], "max_tokens": GROWING_TOKENS, "temperature": 0, "ignore_eos": True, "stream": True}


class Client:
    def __init__(self, service, secret):
        self.port, self.headers = service.port, {"content-type": "application/json", "authorization": f"Bearer {secret}"}

    def ask(self, body, leave_after=None):
        """The status and the text; or, with `leave_after`, only so many pieces of it, after which the connection is closed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
            connection.request("POST", path, json.dumps(body), self.headers)
            answer = connection.getresponse()
            text, pieces = "", 0
            for line in answer if answer.status == 200 else ():
                event = json.loads(line[6:]) if line.startswith(b"data: {") else {}
                if "error" in event:
                    return 500, event["error"]["message"]
                piece = "".join(choice["delta"].get("content") or "" for choice in event.get("choices", ()))
                text, pieces = text + piece, pieces + bool(piece)
                if pieces == leave_after:
                    break
            return answer.status, text
        finally:
            connection.close()


class Load:
    def __init__(self, service, clients, guest):
        self.service, self.clients, self.guest = service, clients, guest
        self.stop, self.answers, self.wrong = threading.Event(), [], []

    def _ask(self, client, body):
        try:
            status, text = client.ask(body)
        except (OSError, http.client.HTTPException) as error:
            status, text = 0, repr(error)
        (self.answers if status == 200 and text else self.wrong).append((status, text))

    def _loop(self, client, first):
        number = first
        while not self.stop.is_set():
            self._ask(client, body(number, 16 + 8 * (number % 3)))
            number += len(self.clients) * CLIENTS_OF_A_KEY

    def run(self):
        """Until everything that a series counts has happened."""
        threads = [threading.Thread(target=self._ask, args=(self.clients[i % len(self.clients)], growing(i)), daemon=True) for i in range(GROWING)]
        loops = [(client, i + len(self.clients) * j) for i, client in enumerate(self.clients) for j in range(CLIENTS_OF_A_KEY)]
        threads += [threading.Thread(target=self._loop, args=one, daemon=True) for one in loops]
        for thread in threads[:GROWING]:
            thread.start()
        try:
            until("a row is preempted", lambda: self.service.value("vllm:num_preemptions_total"), 90)
            for thread in threads[GROWING:]:
                thread.start()
            self._events(self.service)
        finally:
            self.stop.set()
        for thread in threads:
            thread.join(120)

    def _events(self, service):
        until(f"{ANSWERS_BEFORE} answers", lambda: len(self.answers) >= ANSWERS_BEFORE, 120)
        self._kill_the_model(service)
        until("a client that left is counted", self._leave_early, 60)
        # More than the KV budget could ever hold; more than the model has positions for; and a guest who asks twice in a minute.
        short = {"prompt": "Ship", "max_tokens": 2}
        asked = [(self.clients[0], body(0, 1500)), (self.clients[0], body(0, 100_000)), (self.guest, short), (self.guest, short)]
        statuses = [client.ask(each)[0] for client, each in asked]
        if statuses != [400, 400, 200, 429]:
            raise SystemExit(f"deploy: four requests should have 400, 400, 200 and 429, and had {statuses}")
        so_far = len(self.answers)
        until("answers after the loss", lambda: len(self.answers) >= so_far + ANSWERS_AFTER, 120)

    def _kill_the_model(self, service):
        """Its process, while rows are in it; they have to go on."""
        losses = service.stats()["worker"]["exits"]
        pid = until("rows run", lambda: (stats := service.stats())["running"] and stats["steps"] and stats["worker"]["pid"], 30, every_s=0.02)
        os.kill(pid, signal.SIGKILL)
        until("the loss is counted", lambda: service.stats()["worker"]["exits"] > losses, 30)
        until("the model is back", lambda: service.stats()["worker"]["state"] == "ready", 60)
        until("a row went on after it", lambda: service.value("coxswain:recovered_rows_total"), 60)

    def _leave_early(self):
        self.clients[-1].ask(body(1, 32), leave_after=2)
        return self.service.value("coxswain:disconnects_total")
