"""What the comparison computes and how it handles servers, without a model: python -m unittest discover bench."""
import os
import sys
import tempfile
import unittest
import urllib.request
import xml.etree.ElementTree

import bench
import plot
import servers
import table


def report(rate, done=4, length=4, by="usage", errors=None, refusals=None):
    spread = {"p50": 10.0, "p95": 20.0}
    return {
        "output_tokens_per_s": rate,
        "output_tokens_from": by,
        "requests": done + sum(e["count"] for e in (errors or {}).values()),
        "done": done,
        "failed": 0,
        "refused": 0,
        "errors": errors or {},
        "refusals": refusals or {},
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
        full = {"status_429": {"count": 3, "example": "the queue is full"}}
        text = table.markdown({"coxswain": {1: [report(5.0, refusals=full)]}}, [1], 64)
        self.assertIn("3 of 4 requests were refused (status_429, such as: the queue is full)", text)

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


class Plot(unittest.TestCase):
    def test_a_line_a_server_and_a_dot_a_level(self):
        rates = {"coxswain": [30.0, 60.0], "a < b": [10.0, 55.0]}
        reports = {name: {n: [report(1.0), report(rate)] for n, rate in zip([1, 8], line)} for name, line in rates.items()}
        tree = xml.etree.ElementTree.fromstring(plot.svg(reports, [1, 8], "make bench"))
        texts = [e.text for e in tree.iter("{http://www.w3.org/2000/svg}text")]
        self.assertTrue({"coxswain", "a < b", "make bench", "1", "8", "60"} <= set(texts), texts)
        dots = list(tree.iter("{http://www.w3.org/2000/svg}circle"))
        self.assertEqual(len(dots), 4)
        # The best round, and more is higher.
        self.assertEqual(dots[1][0].text, "coxswain: 60.0 at 8")
        self.assertLess(float(dots[1].get("cy")), float(dots[0].get("cy")))

    def test_ticks_are_round(self):
        self.assertEqual(plot.ticks(60), [0, 10, 20, 30, 40, 50, 60])
        self.assertEqual(plot.ticks(75.5), [0, 20, 40, 60])


class Reports(unittest.TestCase):
    def test_the_only_run_is_taken_and_another_version_refused(self):
        run = report(1.0) | {"rows": [1], "quantiles": {}}
        self.assertEqual(bench.only_run({"version": 2, "runs": [run]}), report(1.0))
        with self.assertRaises(SystemExit) as raised:
            bench.only_run(report(1.0))
        self.assertIn("version None", str(raised.exception))


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
