import unittest

from .candidates import Mutant
from .groups import NAMES, draw, group_of


def mutants(file, lines, operators=("constant",)):
    return [Mutant(file, line, line, operator, "a;\n", f"{operator};\n")
            for line in range(1, lines + 1) for operator in operators]


class GroupTest(unittest.TestCase):

    def test_the_first_that_fits(self):
        for file, group in (("interceptors/server/reservation/reservation.cc", "reservation"),
                            ("interceptors/server/execution.cc", "execution"),
                            ("interceptors/server/server_guard.cc", "guard"),
                            ("server/queue/batcher.cc", "batcher"),
                            ("server/rpc/session_call.cc", "session"),
                            ("client/retries/retry_rule.cc", "retries"), ("core/uuid.cc", "other")):
            with self.subTest(file):
                self.assertEqual(group_of(file), group)


class DrawTest(unittest.TestCase):

    def setUp(self):
        self.all = (mutants("core/uuid.cc", 50, ("constant", "comparison"))
                    + mutants("server/queue/batcher.cc", 50) + mutants("server/queue/in_flight_waiters.cc", 3))

    def test_the_same_for_the_same_seed(self):
        self.assertEqual(draw(self.all, 12, "1"), draw(list(reversed(self.all)), 12, "1"))
        self.assertNotEqual(draw(self.all, 12, "1"), draw(self.all, 12, "2"))

    def test_it_is_spread_over_the_groups(self):
        firsts = [group_of(chain[0].file) for chain in draw(self.all, 9, "1")]
        self.assertEqual({name: firsts.count(name) for name in set(firsts)},
                         {"other": 3, "batcher": 3, "waiting": 3})

    def test_a_group_that_has_too_few_leaves_its_places_to_others(self):
        firsts = [group_of(chain[0].file) for chain in draw(self.all, 20, "1")]
        self.assertEqual(len(firsts), 20)
        self.assertEqual(firsts.count("waiting"), 3)

    def test_no_mutant_has_two_places(self):
        drawn = [mutant for chain in draw(self.all, 20, "1") for mutant in chain]
        self.assertEqual(len(drawn), len(set(drawn)))
        self.assertEqual(set(drawn), set(self.all))

    def test_no_line_twice_before_every_line_was_drawn(self):
        chains = draw(mutants("core/uuid.cc", 10, ("constant", "comparison")), 10, "1")
        self.assertEqual(len({chain[0].first for chain in chains}), 10)

    def test_more_than_there_are(self):
        self.assertEqual(len(draw(mutants("core/uuid.cc", 4), 99, "1")), 4)

    def test_every_group_has_a_name_once(self):
        self.assertEqual(len(set(NAMES)), len(NAMES))
