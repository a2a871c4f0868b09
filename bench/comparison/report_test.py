"""Tests of the page's table and of the chart."""

import unittest
from xml.etree import ElementTree

from . import chart, report

FAST = {"title": "cycles / floor", "median": 3.0, "min": 2.0, "max": 4.0, "want": 2.5,
        "at_least": True, "unit": "x", "met": True}
FAT = {"title": "memory", "median": 400.0, "min": 400.0, "max": 400.0, "want": 200,
       "at_least": False, "unit": "MiB", "met": False}
RUN = {
    "measures": {"fast": FAST, "fat": FAT},
    "run": {"at": "2026-01-02T03:04:05+00:00", "commit": "abc", "quick": True, "rounds": 3,
            "seconds": 2},
    "machine": {"processors": 2, "processor": "A <fast> one", "kernel": "6.1"},
    "versions": {"postgres": "15.1 (Debian)", "grpc": "1.51.1"},
}
SVG = "{http://www.w3.org/2000/svg}"


class Report(unittest.TestCase):

    def test_the_table_has_every_measure(self):
        rows = report.markdown(RUN["measures"]).splitlines()
        self.assertEqual(rows[2], "| `fast` | cycles / floor | 3.00 | 2.00 – 4.00 | ≥ 2.50 | yes |")
        self.assertEqual(rows[3],
                         "| `fat` | memory | 400 MiB | 400 – 400 | ≤ 200 MiB | **no** |")

    def test_the_caption_states_that_it_was_quick(self):
        self.assertIn("commit abc, 2026-01-02; 3 rounds of 2 s, quick", report.caption(RUN))

    def test_a_block_is_replaced_and_nothing_else(self):
        begin = "<!-- numbers: written by bench/comparison/report.py -->"
        page = f"before\n{begin}\nold\n<!-- end of numbers -->\nafter\n"
        written = report.with_block(page, "numbers", "new")
        self.assertEqual(written, page.replace("old", "new"))
        self.assertEqual(report.with_block(written, "numbers", "new"), written)

    def test_a_page_without_the_block_is_refused(self):
        for page in ("", "<!-- numbers: written by bench/comparison/report.py -->\n"):
            with self.assertRaises(ValueError):
                report.with_block(page, "numbers", "new")


class Chart(unittest.TestCase):

    def setUp(self):
        self.svg = ElementTree.fromstring(chart.chart(RUN["measures"], report.caption(RUN)))

    def test_better_is_further_right(self):
        met, missed = (float(dot.get("cx")) for dot in self.svg.iter(f"{SVG}circle"))
        wanted = chart.position(1)
        self.assertLess(missed, wanted)
        self.assertGreater(met, wanted)

    def test_less_is_better_where_less_is_wanted(self):
        self.assertEqual(chart.score(100, FAT), 2)
        self.assertEqual(chart.score(400, FAT), 0.5)
        self.assertEqual(chart.score(5, FAST), 2)

    def test_what_is_off_the_scale_stays_on_the_picture(self):
        self.assertEqual(chart.position(1e9), chart.position(4))
        self.assertEqual(chart.position(0), chart.position(0.25))

    def test_names_and_spread_are_there(self):
        text = "".join(self.svg.itertext())
        self.assertIn("A <fast> one", text)
        self.assertIn("wanted ≤ 200 MiB", text)
        spread = [line for line in self.svg.iter(f"{SVG}line") if "met-line" in line.get("class")]
        self.assertLess(float(spread[0].get("x1")), float(spread[0].get("x2")))


if __name__ == "__main__":
    unittest.main()
