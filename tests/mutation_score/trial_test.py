import contextlib
import dataclasses
import pathlib
import tempfile
import unittest

from tests.mutations.workshop import Failed

from .candidates import Mutant
from .report import as_json, score, survivors, survivors_among, table
from .suites import Suite
from .trial import Bench, Outcome, Result, said

_MUTANT = Mutant("server/queue/batcher.cc", 2, 2, "comparison", "a < b;\n", "a <= b;\n")
_TEXT = "void F();\na < b;\n"
_FAILED = "[  FAILED  ] BatcherTest.Order (3 ms)\n[  FAILED  ] 1 test, listed below:\n"


def suite(target):
    return Suite(target, "unit", ("--gtest_fail_fast",), frozenset(), frozenset())


class FakeVariant:
    """Of a tree with one file. `fails` has, by target, the result of each of its runs."""

    def __init__(self, folder, fails=None, broken=()):
        self.tree = self.scratch = pathlib.Path(folder)
        self._file = self.tree / _MUTANT.file
        self._file.parent.mkdir(parents=True)
        self._file.write_text(_TEXT)
        self._fails = fails or {}
        self._broken = broken
        self.ran = []

    def replace(self, file, text):
        (self.tree / file).write_text(text)

    def take_out(self):
        self._file.write_text(_TEXT)

    def object_path(self, made):
        return self.tree / made

    def command_of(self, _):
        return ["g++", "-MD", "-o", str(self.tree / "batcher.o"), "-c", "a"], "."

    def build(self, targets):
        planted = self._file.read_text() != _TEXT
        if planted and not set(targets).isdisjoint(self._broken):
            raise Failed("no")

    def test(self, command, _):
        self.ran.append(command)
        ends = self._fails.get(command[0])
        return ends.pop(0) if ends else (0, "")

    def run(self, command, _):
        # objcopy IN OUT: an object file is the source here.
        if command[0] == "objcopy":
            pathlib.Path(command[-1]).write_text(
                "the same" if getattr(self, "same", False) else self._file.read_text())
        return 0, ""


class FakeBuild:
    """The suites that reach the file, in this order."""

    def __init__(self, suites):
        self._suites = suites

    def object_of(self, _):
        return "batcher.o"

    def reaching(self, _, seconds):
        return [each for each in self._suites if each.target in seconds]


class BenchTest(unittest.TestCase):

    def setUp(self):
        self._folder = contextlib.ExitStack()
        self.addCleanup(self._folder.close)

    def bench(self, seconds, budget=100, **with_that):
        self.variant = FakeVariant(
            self._folder.enter_context(tempfile.TemporaryDirectory()), **with_that)
        return Bench(self.variant, FakeBuild([suite(target) for target in seconds]), seconds,
                     budget)

    def test_the_first_suite_that_fails_ends_it(self):
        bench = self.bench({"a_test": 1, "b_test": 2, "c_test": 3},
                           fails={"b_test": [(1, _FAILED), (1, _FAILED)]})
        result = bench.try_out(_MUTANT)
        self.assertEqual((result.outcome, result.ran, result.by),
                         (Outcome.CAUGHT, ("a_test", "b_test"), "BatcherTest.Order"))
        # Only the failed test runs again.
        self.assertIn("--gtest_filter=BatcherTest.Order", self.variant.ran[-1])

    def test_a_failure_that_does_not_repeat_is_none(self):
        bench = self.bench({"a_test": 1}, fails={"a_test": [(1, _FAILED), (0, "")]})
        self.assertEqual(bench.try_out(_MUTANT).outcome, Outcome.SURVIVED)

    def test_another_test_may_be_the_one_that_fails_each_time(self):
        other = _FAILED.replace("Order", "Limit")
        bench = self.bench({"a_test": 1}, fails={"a_test": [(1, _FAILED), (0, ""), (1, other)]})
        result = bench.try_out(_MUTANT)
        self.assertEqual((result.outcome, result.by), (Outcome.CAUGHT, "BatcherTest.Limit"))

    def test_a_hang_is_caught(self):
        result = self.bench({"a_test": 1}, fails={"a_test": [(None, "")]}).try_out(_MUTANT)
        self.assertEqual((result.outcome, result.by), (Outcome.CAUGHT, "hangs"))

    def test_a_crash_is_caught(self):
        result = self.bench({"a_test": 1}, fails={"a_test": [(-11, ""), (-11, "")]}).try_out(
            _MUTANT)
        self.assertEqual((result.outcome, result.by), (Outcome.CAUGHT, "ended with status -11"))

    def test_what_does_not_compile_does_not_count(self):
        bench = self.bench({"a_test": 1}, broken=("batcher.o",))
        self.assertEqual(bench.try_out(_MUTANT).outcome, Outcome.NOT_COMPILED)
        self.assertEqual(self.variant.ran, [])

    def test_the_same_code_is_equivalent_and_nothing_runs(self):
        bench = self.bench({"a_test": 1})
        self.variant.same = True
        self.assertEqual(bench.try_out(_MUTANT).outcome, Outcome.EQUIVALENT)
        self.assertEqual(self.variant.ran, [])

    def test_suites_run_only_as_long_as_there_is_time_for_them(self):
        bench = self.bench({"a_test": 40, "b_test": 70, "c_test": 50})
        result = bench.try_out(_MUTANT)
        self.assertEqual((result.outcome, result.ran),
                         (Outcome.SURVIVED, ("a_test", "c_test")))

    def test_what_was_cut_off_is_no_verdict(self):
        bench = self.bench({"a_test": 1}, fails={"a_test": [(None, "")]})
        bench.out_of_time_is(lambda: True)
        self.assertEqual(bench.try_out(_MUTANT).outcome, Outcome.UNFINISHED)

    def test_the_file_is_as_it_was_afterwards(self):
        bench = self.bench({"a_test": 1})
        bench.try_out(_MUTANT)
        self.assertEqual((self.variant.tree / _MUTANT.file).read_text(), _TEXT)


class OutputTest(unittest.TestCase):

    def test_how_it_failed(self):
        self.assertEqual(said(1, _FAILED), "BatcherTest.Order")
        self.assertEqual(said(1, "seed 7 broke a promise at 12 s: two live leases\n"),
                         "seed 7 broke a promise at 12 s: two live leases")
        self.assertEqual(said(None, _FAILED), "hangs")


class ReportTest(unittest.TestCase):

    results = [Result(_MUTANT, Outcome.CAUGHT, ("a_test",), "A.B"),
               Result(_MUTANT, Outcome.CAUGHT, ("a_test",), "A.B"),
               Result(_MUTANT, Outcome.SURVIVED, ("a_test", "b_test")),
               Result(_MUTANT, Outcome.EQUIVALENT), Result(_MUTANT, Outcome.ARGUED),
               Result(_MUTANT, Outcome.NOT_COMPILED), Result(_MUTANT, Outcome.UNFINISHED)]

    def test_only_what_can_be_caught_counts(self):
        caught, of, percent = score(self.results)
        self.assertEqual((caught, of, round(percent)), (2, 3, 67))
        self.assertEqual(score(self.results[3:]), (0, 0, None))

    def test_survivors_have_a_place_and_what_ran(self):
        text = survivors(self.results)
        for part in ("server/queue/batcher.cc:2", "- a < b;", "+ a <= b;", "a_test, b_test"):
            self.assertIn(part, text)

    def test_a_row_for_each_group(self):
        self.assertRegex(table(self.results), r"batcher +67 % +2 of 3")

    def test_json(self):
        written = as_json(self.results, {"seed": "1"})
        self.assertEqual(written["groups"]["batcher"]["of"], 3)
        self.assertEqual(len(written["mutants"]), len(self.results))

    def test_survivors_are_found_again(self):
        written = as_json(self.results, {})
        same, moved = (Mutant(_MUTANT.file, line, line, *dataclasses.astuple(_MUTANT)[3:])
                       for line in (70, 4))
        other = Mutant(_MUTANT.file, 2, 2, "comparison", "a < b;\n", "a >= b;\n")
        self.assertEqual(survivors_among([same, other, moved], written), [[moved]])
        self.assertEqual(survivors_among([moved], as_json(self.results[:2], {})), [])
