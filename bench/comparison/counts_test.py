"""Tests of the counts."""

import os
import pathlib
import tempfile
import threading
import unittest

from .counts import calls_in, voluntary_switches

SUMMARY = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 75.00    0.000300          10        30         2 read
 25.00    0.000100          10        10           write
------ ----------- ----------- --------- --------- ----------------
100.00    0.000400          10        40         2 total
"""


class Counts(unittest.TestCase):

    def test_switches_are_summed_over_threads(self):
        with tempfile.TemporaryDirectory() as folder:
            for thread, switches in ((7, 3), (8, 40)):
                task = pathlib.Path(folder, "7", "task", str(thread))
                task.mkdir(parents=True)
                (task / "status").write_text(
                    f"Name:\tx\nvoluntary_ctxt_switches:\t{switches}\n"
                    "nonvoluntary_ctxt_switches:\t1000\n")
            # One that has ended.
            pathlib.Path(folder, "7", "task", "9").mkdir()
            self.assertEqual(voluntary_switches(7, pathlib.Path(folder)), 43)

    def test_waiting_is_counted(self):
        before = voluntary_switches(os.getpid())
        done = threading.Event()
        for _ in range(20):
            done.wait(0.001)
        self.assertGreaterEqual(voluntary_switches(os.getpid()) - before, 20)

    def test_the_sum_of_system_calls(self):
        self.assertEqual(calls_in(SUMMARY), 40)
        self.assertEqual(calls_in(SUMMARY.replace("         2 total", "           total")), 40)
        with self.assertRaises(ValueError):
            calls_in("")


if __name__ == "__main__":
    unittest.main()
