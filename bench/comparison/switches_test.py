"""Counts the voluntary context switches of a lone guarded first call in the built programs and
compares them with bench/switches.json: a busy machine changes them little, where it changes times.

  python3 -m bench.comparison.switches_test FOLDER_OF_BINARIES

Another hand-over between threads in an operation costs a call two switches or more, because it
makes two operations. If one is intended, change bench/switches.json with it; the run prints the
counts. Fewer pass, and the baseline is then to be lowered.
"""

import json
import os
import pathlib
import sys
import tempfile
import types
import unittest

from tests.support.subreaper import run_under_subreaper

from .bench import Bench

BINARIES = None
BASELINE = pathlib.Path(__file__).parents[1] / "switches.json"

# Above the baseline. Half of what another hand-over costs; rounds differ by less than half of it.
MARGIN = 1.0
# Of which the one with the fewest counts: what else runs adds switches, and removes none that
# belongs to a call.
ROUNDS = 4
CALLS = 150


def least(rounds):
    """Of each process, over the rounds."""
    return {name: min(counts[name] for counts in rounds) for name in rounds[0]}


def excess(counts, baseline):
    """The processes that are over their baseline by more than the margin, in words."""
    return [f"{name}: {counts[name]:.1f} switches a call, over {most} + {MARGIN}"
            for name, most in baseline.items() if counts[name] > most + MARGIN]


class Comparison(unittest.TestCase):

    def test_another_hand_over_is_over_the_margin(self):
        baseline = {"server": 8.0, "postgres": 6.0}
        self.assertEqual(excess({"server": 8.9, "postgres": 2.0}, baseline), [])
        self.assertEqual(excess({"server": 10.0, "postgres": 6.0}, baseline),
                         ["server: 10.0 switches a call, over 8.0 + 1.0"])

    def test_the_quietest_round_counts(self):
        self.assertEqual(least([{"a": 9, "b": 4}, {"a": 7, "b": 5}]), {"a": 7, "b": 4})

    def test_a_process_that_is_not_counted_is_an_error(self):
        with self.assertRaises(KeyError):
            excess({}, {"server": 8.0})


class Switches(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.baseline = json.loads(BASELINE.read_text())
        # The daemon has a polling thread for every four cores that it may use.
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:cls.baseline["cores"]])
        cls.addClassCleanup(os.sched_setaffinity, 0, cores)
        folder = tempfile.TemporaryDirectory(prefix="idempotency-switches-test.")
        os.chmod(folder.name, 0o755)
        cls.addClassCleanup(folder.cleanup)
        cls.bench = Bench(types.SimpleNamespace(seconds=1, warmup=0, profile=False), folder.name,
                          BINARIES, wal_files=1)
        cls.addClassCleanup(cls.bench.close)

    def check(self, key, charges):
        def round_of_calls(calls):
            return self.bench.load("charges", charges.guarded, key="fresh", in_flight=1,
                                   pieces=calls, duration="60s", warmup="0s")["switches"]
        # Connections and plans are made.
        round_of_calls(CALLS)
        counts = least([round_of_calls(CALLS) for _ in range(ROUNDS)])
        baseline = self.baseline[key]
        print(f"{key}: " + ", ".join(f"{name} {counts[name]:.1f} (baseline {baseline[name]})"
                                     for name in baseline), flush=True)
        self.assertEqual(excess(counts, self.bounded(baseline)), [])

    @staticmethod
    def bounded(baseline):
        # gRPC's callback API has a thread for every two cores of the machine, and at least two.
        if os.cpu_count() > 5:
            return {name: most for name, most in baseline.items() if name != "charges"}
        return baseline

    def test_lone_first_call(self):
        daemon = self.bench.daemon()
        charges = self.bench.charges(daemon)
        self.check("lone_first", charges)
        self.bench.stop(charges, daemon)

    def test_embedded_first_call(self):
        _, store = self.bench.migrated_database()
        charges = self.bench.charges(embedded_store=store)
        self.check("embedded_first", charges)
        self.bench.stop(charges)


if __name__ == "__main__":
    run_under_subreaper()
    BINARIES = sys.argv.pop(1)
    unittest.main()
