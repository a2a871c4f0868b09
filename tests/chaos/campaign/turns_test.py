"""Faults come in rounds."""

import collections
import random
import time
import types
import unittest

from tests.chaos.campaign.turns import Turns


class TurnsTest(unittest.TestCase):
    def setUp(self):
        self.done = collections.Counter()

    def _group(self, *names, **impossible):
        return types.SimpleNamespace(
            kinds={name: lambda name=name: self._do(name) for name in names},
            impossible=impossible)

    def _do(self, name):
        self.done[name] += 1
        if self.done.total() == self.until:
            raise StopIteration

    def _run(self, turns, until):
        self.until = until
        with self.assertRaises(StopIteration):
            turns.run(time.monotonic() + 60, pause=(0, 0))

    def test_each_kind_once_in_a_round(self):
        self._run(Turns([self._group("a", "b"), self._group("c")], random.Random(1)), 9)
        self.assertEqual(self.done, {"a": 3, "b": 3, "c": 3})

    def test_some_twice(self):
        self._run(Turns([self._group("a", "b")], random.Random(1), often=("b", "gone")), 9)
        self.assertEqual(self.done, {"a": 3, "b": 6})

    def test_what_is_impossible(self):
        turns = Turns([self._group("a", b="why"), self._group(c="why too")], random.Random(1))
        self.assertEqual(turns.impossible, {"b": "why", "c": "why too"})
        self.assertEqual(set(turns.kinds), {"a"})

    def test_it_ends(self):
        Turns([self._group("a")], random.Random(1)).run(time.monotonic() - 1)
        self.assertEqual(self.done, {})


if __name__ == "__main__":
    unittest.main()
