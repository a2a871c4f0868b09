"""The minimal programs against a private Postgres, shortly.

  python3 -m bench.minimal.programs_test FOLDER_OF_BINARIES
"""

import subprocess
import sys
import tempfile
import time
import types
import unittest

from bench.comparison.bench import Bench
from tests.support.subreaper import run_under_subreaper

from .__main__ import _medians
from .contenders import Minimal

BINARIES = None
SHORT = {"duration": "500ms", "warmup": "50ms"}


class Medians(unittest.TestCase):

    def test_a_round_may_have_no_ratio(self):
        row = {"calls/s": 1.0, "switches: daemon": None}
        self.assertEqual({"calls/s": 2.0, "switches: daemon": 3.0},
                         _medians([row, {"calls/s": 3.0, "switches: daemon": 3.0}]))
        self.assertEqual({"calls/s": 1.0, "switches: daemon": None}, _medians([row, row]))


class Programs(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="minimal-programs-test.")
        cls.addClassCleanup(folder.cleanup)
        # Postgres runs as another user.
        subprocess.run(["chmod", "755", folder.name], check=True)
        cls.bench = Bench(types.SimpleNamespace(seconds=1, warmup=0, profile=False), folder.name,
                          BINARIES, wal_files=0)
        cls.addClassCleanup(cls.bench.close)

    def _check(self, report):
        self.assertGreater(report["measured"], 0)
        self.assertEqual(report["failures"], 0)

    def _calls(self, embedded, cached):
        contender = Minimal(self.bench, cached, embedded)
        keys = {"seed": 7, "first_key_ms": int(time.time() * 1000) - 1000}
        target = contender.start()
        self.addCleanup(contender.stop)
        # One call in 256 is looked at: each of these is the first of its key, or none is.
        alone = {**keys, "pieces": 1, "in_flight": 1, "warmup": "0s", "duration": "60s"}
        self._check(self.bench.load("charges", target, key="fresh", **alone))
        self._check(self.bench.load("charges", target, key="replayed", keys=1, **alone))
        with self.assertRaisesRegex(RuntimeError, "a replay of a key that is new"):
            self.bench.load("charges", target, key="fresh", **alone)
        with self.assertRaisesRegex(RuntimeError, "not a replay"):
            self.bench.load("charges", target, key="replayed", keys=1, **{**alone, "seed": 8})
        return target

    def _crowd(self, target):
        keys = {"seed": 9, "first_key_ms": int(time.time() * 1000) - 1000, "in_flight": 64}
        self._check(self.bench.load("charges", target, key="fresh", pieces=1024, warmup="0s",
                                    duration="60s", **keys))
        self._check(self.bench.load("charges", target, key="replayed", keys=1024, **keys, **SHORT))
        self._check(self.bench.load("charges", target, key="fresh", in_flight=64, **SHORT))

    def _records(self, contender, condition):
        return int(self.bench.cluster.sql(
            f"SELECT count(*) FROM minimal_records WHERE {condition}", contender.database))

    def test_through_the_daemon(self):
        self._crowd(self._calls(embedded=False, cached=False))

    def test_embedded(self):
        self._crowd(self._calls(embedded=True, cached=False))

    def test_from_the_cache(self):
        self._crowd(self._calls(embedded=True, cached=True))

    def test_a_record_for_each_call(self):
        for embedded in (False, True):
            contender = Minimal(self.bench, False, embedded)
            target = contender.start()
            self.bench.load("charges", target, key="fresh", pieces=2000, in_flight=64, warmup="0s",
                            duration="60s")
            contender.stop()
            # The serialized ChargeReply, whose receipt has 256 bytes.
            reply = "reply = '\\x0a8002' || repeat('r', 256)::bytea"
            self.assertEqual([self._records(contender, condition)
                              for condition in ("state = 1", "state = 2", reply)], [0, 2000, 2000])


if __name__ == "__main__":
    run_under_subreaper()
    BINARIES = sys.argv.pop(1)
    unittest.main()
