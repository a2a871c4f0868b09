"""Tests of the tables and of the chart of the alternatives."""

import contextlib
import io
import json
import pathlib
import re
import tempfile
import unittest
from xml.etree import ElementTree

from . import chart, report
from .turns import summary

SVG = "{http://www.w3.org/2000/svg}"


def numbers(per_second, p50_us, p99_us, cpu_us=100.0):
    return {"per_second": per_second, "p50_us": p50_us, "p99_us": p99_us, "cpu_us": cpu_us}


def contender(title, bare, *loads):
    """Three rounds in which the machine slows down: of all numbers alike."""
    rounds = {}
    for load in loads:
        base = {"bare": 100.0, "first": 1000.0, "replay": 300.0, "hot": 200.0}[load]
        for crowd in (1, 16, 64):
            if load == "bare" and not bare:
                continue
            rounds[f"{load}/{crowd}"] = [numbers(5000.0 / factor, base * factor, 3 * base * factor)
                                         for factor in (1, 2, 4)]
    return {"title": title, "versions": {"thing": "1.2", "language": "C++"}, "settings": "defaults",
            "durability": "flushed", "not_comparable": "other things", "rounds": rounds,
            "loads": summary(rounds)}


ALL = ("bare", "first", "replay", "hot")
RUN = {
    "contenders": {"guarded": contender("ours", True, *ALL),
                   "restate": contender("a <server>", False, *ALL)},
    "left_out": {"Other": "no | server\nat all"},
    "failed": {"Broken": "no port"},
    "run": {"at": "2026-01-02T03:04:05+00:00", "commit": "abc", "quick": True, "rounds": 3,
            "seconds": 2},
    "machine": {"processors": 2, "processor": "A fast one", "kernel": "6.1",
                "load_average_before": 0.1},
    "versions": {"postgres": "15.1 (Debian)", "grpc": "1.51.1"},
    "postgres_settings": {"fsync": "on"},
}


BUSY = {**RUN, "machine": {**RUN["machine"], "load_average_before": 9.0}}
ROOT = pathlib.Path(__file__).parent.parent.parent
BLOCKS = (("README.md", "figures"), ("docs/performance.md", "a guarded call"),
          ("docs/alternatives.md", "alternatives"))


class Report(unittest.TestCase):

    def test_what_is_added_is_taken_of_each_round(self):
        ours = RUN["contenders"]["guarded"]
        self.assertEqual(report.added_us(ours, "first/1", "p50_us"), 1800)
        self.assertEqual(report.added_us(ours, "first/1", "p99_us"), 5400)

    def test_rounds_are_paired_not_medians_subtracted(self):
        one = {"rounds": {"bare/1": [numbers(1, value, 0) for value in (1.0, 5.0, 9.0)],
                          "first/1": [numbers(1, value, 0) for value in (10.0, 11.0, 9.0)]}}
        self.assertEqual(report.added_us(one, "first/1", "p50_us"), 6)

    def test_one_without_an_unguarded_call_adds_an_unknown_time(self):
        self.assertIsNone(report.added_us(RUN["contenders"]["restate"], "first/1", "p50_us"))
        row = report.latencies(RUN["contenders"], "first").splitlines()[3]
        self.assertTrue(row.startswith("| a <server> | 2.00 (–) |"), row)

    def test_latency_rows_have_every_crowd(self):
        head, _, row = report.latencies(RUN["contenders"], "first").splitlines()[:3]
        self.assertEqual(head.count("in flight"), 6)
        self.assertTrue(row.startswith("| ours | 2.00 (+1.80) | 6.00 (+5.40) |"), row)

    def test_a_core_carries_what_its_time_is_enough_for(self):
        self.assertEqual(report.per_core(RUN["contenders"]["guarded"], "first/64"), 10_000)

    def test_rates_leave_a_missing_load_open(self):
        row = report.rates(RUN["contenders"]).splitlines()[3]
        self.assertEqual(row, "| a <server> | – | 2,500 | 2,500 | 2,500 | 10,000 | 10,000 |")

    def test_those_left_out_and_failed_are_rows_with_the_reason(self):
        rows = report.conditions(RUN).splitlines()
        self.assertEqual(rows[-2], "| Other | | | | left out: no \\| server at all |")
        self.assertEqual(rows[-1], "| Broken | | | | failed: no port |")
        self.assertIn("thing 1.2, C++ | defaults | flushed | other things", rows[2])

    def test_the_words_have_the_tables_numbers(self):
        words = report.sentences(RUN)
        self.assertIn("adds 1.80 ms", words)
        self.assertIn("p99 5.40 ms", words)
        self.assertIn("10,000 first calls", words)
        self.assertEqual(report.sentences({**RUN, "contenders": {}}), "")

    def test_replays_from_memory_are_named_where_they_are_read(self):
        note = report.replay_note(RUN)
        self.assertIn("neither idempotencyd nor Postgres", note)
        _, alternatives = report.blocks(RUN)
        self.assertIn(f"\n\n{note}\n\n| replays of distinct keys", alternatives)
        self.assertIn(f"\n\n{note}\n\n| replays of distinct keys",
                      (ROOT / "docs/alternatives.md").read_text())
        self.assertEqual(report.replay_note({**RUN, "contenders": {}}), "")

    def test_numbers_of_a_busy_machine_say_so(self):
        self.assertNotIn("other work", report.caption(RUN))
        for text in (*report.blocks(BUSY), report.headline(BUSY)):
            self.assertIn("beside other work (load average 9)", text)

    def test_the_pages_have_the_blocks(self):
        for page, name in BLOCKS:
            written = report.with_block((ROOT / page).read_text(), name, "new", report._WRITER)
            self.assertIn("\nnew\n", written)

    def test_the_readme_has_the_numbers_of_the_page(self):
        line = re.search(r"<!-- figures: .*?-->\n(.*?)\n<!--", (ROOT / "README.md").read_text(),
                         re.S)[1]
        page = (ROOT / "docs/performance.md").read_text().partition("<!-- end of")[0]
        numbers = re.findall(r"\d+\.\d+(?= ms)|\d+,\d{3}", line)
        self.assertEqual(len(numbers), 3)
        for number in numbers:
            self.assertIn(number, page)


class Writing(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "docs").mkdir()
        for page, name in BLOCKS:
            (self.root / page).write_text(
                f"<!-- {name}: written by {report._WRITER} -->\nold\n<!-- end of {name} -->\n")

    def write(self, run, *flags):
        file = self.root / "run.json"
        file.write_text(json.dumps(run))
        with contextlib.redirect_stdout(io.StringIO()):
            report.main([str(file), f"--root={self.root}", *flags])

    def pages(self):
        return [(self.root / page).read_text() for page, _ in BLOCKS]

    def test_numbers_of_a_quiet_machine_are_written(self):
        self.write(RUN)
        for page in self.pages():
            self.assertIn("10,000", page)
            self.assertNotIn("old", page)

    def test_numbers_of_a_busy_machine_are_refused(self):
        with self.assertRaisesRegex(SystemExit, "load average 9.0, 2 processors.*--force"):
            self.write(BUSY)
        for page in self.pages():
            self.assertIn("old", page)

    def test_numbers_of_a_busy_machine_can_be_forced(self):
        self.write(BUSY, "--force")
        for page in self.pages():
            self.assertIn("beside other work (load average 9)", page)

    def test_a_run_without_the_guard_leaves_the_readme(self):
        self.write({**RUN, "contenders": {"restate": RUN["contenders"]["restate"]}})
        self.assertIn("old", self.pages()[0])


class Chart(unittest.TestCase):

    def setUp(self):
        self.svg = ElementTree.fromstring(chart.chart(RUN["contenders"], "a caption <1>"))

    def test_every_contender_has_a_bar_in_every_panel(self):
        bars = [bar for bar in self.svg.iter(f"{SVG}rect") if bar.get("class") != "page"]
        self.assertEqual(len(bars), 2 * len(chart.PANELS))
        self.assertEqual([bar.get("class") for bar in bars[:2]], ["ours", "other"])

    def test_lengths_are_proportional(self):
        self.assertEqual(chart.length(5, 10) * 2, chart.length(10, 10))

    def test_bars_and_lines_stay_on_the_picture(self):
        width, height = (float(x) for x in self.svg.get("viewBox").split()[2:])
        for line in self.svg.iter(f"{SVG}line"):
            self.assertLessEqual(float(line.get("x2")), width)
        for bar in self.svg.iter(f"{SVG}rect"):
            self.assertLessEqual(float(bar.get("y") or 0) + float(bar.get("height")), height)

    def test_the_lone_latency_reaches_to_its_p99(self):
        line = list(self.svg.iter(f"{SVG}line"))[-2]
        start, end = float(line.get("x1")), float(line.get("x2"))
        self.assertLess(start, end)
        text = "".join(self.svg.itertext())
        self.assertIn("2.00 ms", text)
        self.assertIn("a <server>", text)


if __name__ == "__main__":
    unittest.main()
