"""The Go programs of the alternatives on a private Postgres. Without Go, or without its module
proxy, the tests are skipped, and say so.

  python3 -m bench.peers.programs_test FOLDER_OF_PACKAGES
"""

import os
import subprocess
import sys
import tempfile
import types
import unittest

from bench.comparison.bench import Bench
from tests.support.subreaper import run_under_subreaper

from .middleware import Middleware
from .packages import HERE, LeftOut, Packages
from .turns import CROWDS, LOADS, Times, turn

PACKAGES = None


class Programs(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.packages = Packages(PACKAGES)
        cls.middleware = Middleware()
        try:
            cls.load = cls.packages.go_program("load")
            cls.middleware.prepare(None, cls.packages)
        except LeftOut as reason:
            raise unittest.SkipTest(str(reason)) from reason
        folder = tempfile.TemporaryDirectory(prefix="idempotency-peers-test.")
        cls.addClassCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        cls.bench = Bench(types.SimpleNamespace(profile=False), folder.name, folder.name)
        cls.addClassCleanup(cls.bench.close)

    def test_their_own_tests_pass(self):
        store = self.bench.cluster.url(self.bench.cluster.new_database())
        done = subprocess.run(["go", "test", "-count=1", "-v", "./..."], cwd=HERE / "go",
                              env={**os.environ, "PEERS_STORE": store}, capture_output=True,
                              text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("--- SKIP", done.stdout)

    def test_a_turn_measures_every_load_without_a_failure(self):
        times = Times(warmup_s=0.05, seconds=0.5, keys=50, start_s=0.2)
        reports = turn(self.bench, self.load, self.middleware, times)
        self.assertEqual(set(reports), {f"{load}/{crowd}" for load in LOADS for crowd in CROWDS})
        for report in reports.values():
            self.assertGreater(report["cpu_us_by_process"]["middleware"], 0)
            self.assertGreaterEqual(report["p99_us"], report["p50_us"])


if __name__ == "__main__":
    run_under_subreaper()
    PACKAGES = sys.argv.pop(1)
    unittest.main()
