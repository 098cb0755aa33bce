"""What the comparison computes and how it handles servers, without a model: python -m unittest discover bench."""
import os
import sys
import tempfile
import unittest
import urllib.request

import servers
import table


def report(rate, done=4, length=4, by="usage", errors=None):
    spread = {"p50": 10.0, "p95": 20.0}
    return {
        "output_tokens_per_s": rate,
        "output_tokens_from": by,
        "requests": done + sum(e["count"] for e in (errors or {}).values()),
        "done": done,
        "failed": 0,
        "errors": errors or {},
        "finish_reasons": {"length": length} if length else {},
        "wall_s": 1.0,
        "ttft_ms": spread,
        "itl_ms": spread,
    }


class Table(unittest.TestCase):
    def test_the_best_rounds_are_compared(self):
        reports = {"coxswain": {8: [report(30.0), report(60.0)]}, "mlx_lm.server": {8: [report(40.0), report(20.0)]}}
        text = table.markdown(reports, [8], 64)
        self.assertIn("| 8 | 60.0 | 40.0 | 1.50 | 10 / 20 | 10 / 20 | 10 / 20 | 10 / 20 |", text)
        self.assertNotIn("ended before", text)

    def test_what_spoils_a_comparison_is_said(self):
        errors = {"connect": {"count": 2, "example": "no connection: reset"}}
        reports = {"mlx_lm.server": {1: [report(5.0, done=4, length=3, by="pieces", errors=errors)]}}
        text = table.markdown(reports, [1], 64)
        self.assertIn("mlx_lm.server, 1 clients: 1 of 4 answers ended before 64 tokens.", text)
        self.assertIn("the server gave no usage", text)
        self.assertIn("2 of 6 requests failed (connect, such as: no connection: reset)", text)
        self.assertNotIn("ratio", text)

    def test_a_page_keeps_what_is_around_the_table(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "docs", "page.md")
            table.write(page, "one\n", "a box", "make bench")
            with open(page) as f:
                text = f.read()
            self.assertIn("`make bench` on a box:\n\none\n", text)
            with open(page, "w") as f:
                f.write("above\n" + text + "below\n")
            table.write(page, "two\n", "a box", "make bench")
            with open(page) as f:
                text = f.read()
            self.assertTrue(text.startswith("above\n") and text.endswith("below\n"), text)
            self.assertNotIn("one\n", text)
            self.assertIn("two\n", text)
            with open(page, "w") as f:
                f.write("no marks")
            with self.assertRaises(SystemExit):
                table.write(page, "three\n", "a box", "make bench")


class Running(unittest.TestCase):
    def run_one(self, command, path="/"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        server = servers.Server("it", [sys.executable, *command], path, False)
        return servers.Running(server, "a model", 4, os.path.join(folder.name, "log"))

    def test_a_server_is_ready_inside_and_gone_after(self):
        with self.run_one(["-m", "http.server", "--bind", "127.0.0.1", "{port}"]) as running:
            urllib.request.urlopen(running.url).close()
        self.assertIsNotNone(running.process.returncode)

    def test_a_server_that_ends_early_is_reported_with_its_words(self):
        with self.assertRaises(SystemExit) as raised:
            with self.run_one(["-c", "import sys; sys.exit('no such ' + sys.argv[1])", "{model}"]):
                pass
        self.assertIn("it ended with 1", str(raised.exception))
        self.assertIn("no such a model", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
