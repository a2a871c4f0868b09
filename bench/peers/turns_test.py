"""Tests of turns, their failures and the medians, with contenders that are no processes."""

import contextlib
import io
import pathlib
import tempfile
import unittest
from unittest import mock

from . import turns
from .contender import Absent, Contender, Target
from .packages import LeftOut, Packages
from .restate_ingress import listener

TIMES = turns.Times(warmup_s=0, seconds=1, keys=10)
REPORT = {"failures": 0, "first_failure": "", "measured": 5, "ended": 10, "per_second": 5.0,
          "p50_us": 1.0, "p99_us": 2.0}


class Recorded:
    """A bench that records what is started and stopped."""

    def __init__(self):
        self.events = []
        self.seconds = 0.0

    def stop_servers(self):
        self.events.append("stop")

    def log(self, text):
        self.events.append(text)

    def cpu_seconds(self):
        self.seconds += 1
        return {"load": 100 * self.seconds, "load-client": 50 * self.seconds,
                "server": self.seconds, "postgres": 2 * self.seconds}


class Fake(Contender):

    def __init__(self, key, bench, fails=None, has_bare=True):
        self.key, self.title, self._bench = key, key, bench
        self._fails, self._has_bare = fails, has_bare

    def start(self, bench):
        self._bench.events.append(f"start {self.key}")
        if self._fails:
            raise RuntimeError(self._fails)
        return Target([], self._has_bare)


class FakeLoad(turns.Load):
    """Answers every load with a report, whose changes are in `changes` by load."""

    changes = {}

    def __init__(self, bench, program, target):
        self._bench = bench

    def put(self, load, in_flight, warmup_s, seconds, keys):
        self._bench.events.append(f"{load}/{in_flight}")
        report = {**REPORT, **self.changes.get(load, {})}
        turns.check(load, report)
        return report


class Turns(unittest.TestCase):

    def setUp(self):
        self.bench = Recorded()
        FakeLoad.changes = {}
        patched = mock.patch.object(turns, "Load", FakeLoad)
        patched.start()
        self.addCleanup(patched.stop)

    def rounds(self, *contenders, count=3):
        return turns.rounds(self.bench, "load", contenders, TIMES, count)

    def test_contenders_take_turns_and_are_stopped_after_each(self):
        self.rounds(Fake("a", self.bench), Fake("b", self.bench), count=2)
        turns_taken = [event for event in self.bench.events
                       if event == "stop" or event.startswith("start")]
        self.assertEqual(turns_taken, ["start a", "stop", "start b", "stop"] * 2)

    def test_every_load_is_measured_at_every_crowd_in_every_round(self):
        reports, failed = self.rounds(Fake("a", self.bench))
        self.assertEqual(failed, {})
        self.assertEqual(set(reports["a"]), {f"{load}/{crowd}" for load in turns.LOADS
                                             for crowd in turns.CROWDS})
        self.assertTrue(all(len(of_rounds) == 3 for of_rounds in reports["a"].values()))

    def test_one_without_unkeyed_calls_has_no_such_load(self):
        reports, _ = self.rounds(Fake("a", self.bench, has_bare=False))
        self.assertNotIn("bare/1", reports["a"])
        self.assertIn("first/1", reports["a"])

    def test_a_failure_is_named_and_ends_only_its_own_turns(self):
        reports, failed = self.rounds(Fake("a", self.bench, fails="no port\nmore\nthe cause"),
                                      Fake("b", self.bench))
        self.assertEqual(failed, {"a": "no port … the cause"})
        self.assertEqual(self.bench.events.count("start a"), 1)
        self.assertEqual(self.bench.events.count("start b"), 3)
        self.assertEqual(len(reports["b"]["hot/64"]), 3)

    def test_a_load_with_one_failed_call_has_no_result(self):
        FakeLoad.changes = {"replay": {"failures": 1, "first_failure": "another answer"}}
        _, failed = self.rounds(Fake("a", self.bench))
        self.assertIn("another answer", failed["a"])
        self.assertEqual(self.bench.events[-2], "stop")

    def test_a_load_without_a_call_has_no_result(self):
        FakeLoad.changes = {"hot": {"measured": 0}}
        _, failed = self.rounds(Fake("a", self.bench))
        self.assertIn("no call ended", failed["a"])

    def test_the_processor_time_is_the_servers(self):
        reports, _ = self.rounds(Fake("a", self.bench), count=1)
        report = reports["a"]["first/1"][0]
        self.assertEqual(report["cpu_us_by_process"], {"server": 1e5, "postgres": 2e5})
        self.assertEqual(report["cpu_us"], 3e5)


class Summary(unittest.TestCase):

    def test_the_median_of_the_rounds_counts(self):
        rounds = [{**REPORT, "cpu_us": 1.0, "p50_us": value} for value in (9.0, 1.0, 2.0)]
        number = turns.summary({"first/1": rounds})["first/1"]["p50_us"]
        self.assertEqual(number, {"median": 2.0, "min": 1.0, "max": 9.0})


class LeavingOut(unittest.TestCase):

    def test_one_that_cannot_run_gives_the_reason(self):
        with self.assertRaisesRegex(LeftOut, "no server"):
            Absent("x", "X", "no server").prepare(None, None)

    def test_without_installing_a_missing_package_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            packages = Packages(folder, install=False)
            for how in (lambda: packages.go_program("load"), lambda: packages.python("dbos"),
                        lambda: packages.node_folder("restate")):
                with self.assertRaisesRegex(LeftOut, "not installed"):
                    how()

    def test_a_missing_tool_is_named(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.dict("os.environ", {"PATH": folder}), \
                contextlib.redirect_stdout(io.StringIO()):
            with self.assertRaisesRegex(LeftOut, "npm is not on this machine"):
                Packages(pathlib.Path(folder) / "packages").node_folder("restate")


class Restate(unittest.TestCase):

    def test_a_listener_is_read_from_the_log(self):
        line = ('{"fields":{"message":"Server listening"},"span":{"server.address":"127.0.0.1",'
                '"server.port":43307,"server_name":"admin-api-server","name":"server"}}')
        self.assertEqual(listener(line), ("admin-api-server", "127.0.0.1:43307"))


if __name__ == "__main__":
    unittest.main()
