"""The load generator and the Charges server against a real idempotencyd, shortly.

  python3 -m bench.comparison.load_test FOLDER_OF_BINARIES
"""

import sys
import tempfile
import time
import types
import unittest

from tests.support.subreaper import run_under_subreaper

from .bench import Bench

BINARIES = None
SHORT = {"duration": "300ms", "warmup": "50ms", "in_flight": 8}
KEYS = {"seed": 7, "first_key_ms": 0}


class Load(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        KEYS["first_key_ms"] = int(time.time() * 1000) - 1000
        folder = tempfile.TemporaryDirectory(prefix="idempotency-load-test.")
        cls.addClassCleanup(folder.cleanup)
        cls.bench = Bench(types.SimpleNamespace(seconds=1, warmup=0, profile=False), folder.name, BINARIES)
        cls.addClassCleanup(cls.bench.close)
        cls.daemon = cls.bench.sqlite_daemon()
        cls.bench.load("cycles", cls.daemon.address, pieces=200, **{**SHORT, **KEYS,
                                                                  "warmup": "0s",
                                                                  "duration": "60s"})

    def check(self, report):
        self.assertGreater(report["measured"], 0)
        self.assertGreater(report["per_second"], 0)
        self.assertEqual(report["failures"], 0)
        self.assertGreaterEqual(report["p99_us"], report["p50_us"])
        self.assertGreater(report["p50_us"], 0)

    def test_cycles(self):
        report = self.bench.load("cycles", self.daemon.address, hashed_share=0.2, **SHORT)
        self.check(report)
        self.assertIn("idempotencyd", report["cpu_us"])

    def test_replays(self):
        self.check(self.bench.load("replays", self.daemon.address, keys=200, **KEYS, **SHORT))

    def test_what_is_no_replay_fails(self):
        with self.assertRaisesRegex(RuntimeError, "not the verdict"):
            self.bench.load("replays", self.daemon.address, keys=200, **{**KEYS, "seed": 8},
                            **SHORT)

    def test_mixed(self):
        for rate in (0, 200):
            self.check(self.bench.load("mixed", self.daemon.address, rate=rate, keys=200, **KEYS,
                                       **SHORT))

    def test_offered(self):
        reports = self.bench.load("offered", self.daemon.address, duration="300ms", warmup="0s",
                                  offer="alpha:100:8,beta:200:8")
        self.check(reports["alpha"])
        self.check(reports["beta"])

    def test_hot_wait(self):
        waits = self.bench.load("hot_wait", self.daemon.address, rounds=2, waiters=8)["waits_ms"]
        self.assertEqual(len(waits), 2)

    def test_charges(self):
        charges = self.bench.charges(self.daemon, replay_cache_bytes=0)
        self.check(self.bench.load("charges", charges.bare, **SHORT))
        self.check(self.bench.load("charges", charges.guarded, key="fresh", pieces=512,
                                   **{**SHORT, **KEYS, "warmup": "0s", "duration": "60s"}))
        replayed = {**KEYS, **SHORT, "key": "replayed", "keys": 512}
        self.check(self.bench.load("charges", charges.guarded, **replayed))
        with self.assertRaisesRegex(RuntimeError, "not a replay"):
            self.bench.load("charges", charges.guarded, **{**replayed, "seed": 9})
        self.bench.stop(charges)


if __name__ == "__main__":
    run_under_subreaper()
    BINARIES = sys.argv.pop(1)
    unittest.main()
