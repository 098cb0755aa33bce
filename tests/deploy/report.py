"""Counts what held and what did not. Everything is looked at before the test fails, so that one run tells all."""


class Report:
    def __init__(self):
        self.passed, self.failures = 0, []

    def check(self, held, what):
        if held:
            self.passed += 1
        else:
            self.failures.append(what)
            print(f"deploy: FAILED: {what}", flush=True)
        return held

    def say(self, text):
        print(f"deploy: {text}", flush=True)

    def end(self):
        print(f"deploy: {self.passed} passed, {len(self.failures)} failed", flush=True)
        return 1 if self.failures else 0
