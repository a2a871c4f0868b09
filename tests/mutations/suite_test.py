import unittest

from .suite import MAX_SEEDS, UnknownSuite, suite_of, together

_TESTS = """\
[ RUN      ] Stores/ReleaseTest.WithoutARecordItIsLost/Memory
[       OK ] Stores/ReleaseTest.WithoutARecordItIsLost/Memory (0 ms)
[  FAILED  ] Stores/ReleaseTest.AfterCompleteItIsLost/Memory, where GetParam() = Memory (1 ms)
[  FAILED  ] Stores/ReleaseTest.AfterCompleteItIsLost/Sqlite, where GetParam() = Sqlite (9 ms)
[  FAILED  ] ServerGuardTest/0.ClientThatHangsUp, where TypeParam = SyncTill (31 ms)
[  FAILED  ] BatcherTest.CompletionsGoFirst (3 ms)
[==========] 4 tests from 3 test suites ran. (55 ms total)
[  FAILED  ] 4 tests, listed below:
[  FAILED  ] BatcherTest.CompletionsGoFirst
"""

_SEEDS = """\
seed 4 broke a promise ended by signal 6
  again: simulation --seed=4 --steps=200 --trace
seed 7 broke a promise at 12.500000 s: two live leases (record 018bcfe5)
  again: simulation --seed=7 --steps=200 --trace
2 of 100 seeds failed; 12 events, 3 s simulated in 0.1 s; digest of the last 00
"""


class GoogleTestsTest(unittest.TestCase):

    def test_what_failed(self):
        self.assertEqual(
            suite_of("a_test").failures(_TESTS),
            ["ReleaseTest.AfterCompleteItIsLost (Memory, Sqlite)",
             "ServerGuardTest.ClientThatHangsUp (0)", "BatcherTest.CompletionsGoFirst"])

    def test_many_parameters_are_counted(self):
        output = "".join(f"[  FAILED  ] All/A.B/p{i}, where GetParam() = {i} (0 ms)\n"
                         for i in range(9))
        self.assertEqual(suite_of("a_test").failures(output), ["A.B (9 times)"])

    def test_a_crash_is_no_failure(self):
        self.assertEqual(suite_of("a_test").failures("[ RUN      ] A.B\nterminate called\n"), [])

    def test_the_filter(self):
        self.assertEqual(list(suite_of("a_test Some.*:Other.*").commands()),
                         [["a_test", "--gtest_filter=Some.*:Other.*"]])
        self.assertEqual(list(suite_of("a_test").commands()), [["a_test"]])

    def test_an_anti_patterns_tests_are_those_of_its_file(self):
        suite = suite_of("antipatterns 04")
        self.assertEqual(suite.filter, "*/OptionalKeys.*")
        self.assertEqual(suite.targets, ("antipatterns_test", "idempotencyd"))

    def test_suites_that_are_none(self):
        for text in ("", "antipatterns 99", "some binary", "simulation 300"):
            with self.subTest(text), self.assertRaises(UnknownSuite):
                suite_of(text)


class SeedsTest(unittest.TestCase):

    def test_the_first_promise_that_is_broken(self):
        self.assertEqual(suite_of("simulation").failures(_SEEDS),
                         ["2 of 100 seeds, the first 7: two live leases"])

    def test_crashes_alone_are_no_failure(self):
        crashes = "".join(line for line in _SEEDS.splitlines(True) if "at 12" not in line)
        self.assertEqual(suite_of("simulation").failures(crashes), [])

    def test_a_run_that_was_cut_off_is_none(self):
        self.assertEqual(suite_of("simulation").failures(_SEEDS.split("2 of 100")[0]), [])

    def test_every_seed_once(self):
        commands = list(suite_of("simulation").commands())
        self.assertEqual(commands[0], ["simulation", "--first=1", "--seeds=100"])
        self.assertEqual(commands[-1], ["simulation", f"--first={MAX_SEEDS - 99}", "--seeds=100"])


class TogetherTest(unittest.TestCase):

    def test_filters_add_up(self):
        suites = together(map(suite_of, ("a_test B.*", "simulation", "a_test A.*", "b_test",
                                         "b_test C.*", "simulation")))
        self.assertEqual([next(iter(suite.commands())) for suite in suites],
                         [["a_test", "--gtest_filter=A.*:B.*"],
                          ["simulation", "--first=1", "--seeds=100"], ["b_test"]])
