"""Tests of the results of the rounds' numbers."""

import unittest

from .rounds import Outcome, Target, number, table

AT_LEAST = Target("fast", "faster", 2.5, True)
AT_MOST = Target("small", "smaller", 100, False, "MiB")


class Rounds(unittest.TestCase):

    def test_the_median_decides(self):
        self.assertTrue(Outcome(AT_LEAST, [9, 2.5, 0.1], []).met)
        self.assertFalse(Outcome(AT_LEAST, [9, 2.4, 0.1], []).met)
        self.assertTrue(Outcome(AT_MOST, [1, 100, 900], []).met)
        self.assertFalse(Outcome(AT_MOST, [1, 101, 900], []).met)

    def test_the_spread_is_reported(self):
        outcome = Outcome(AT_LEAST, [3, 1, 2], [{"x": 1}]).to_json()
        self.assertEqual((outcome["min"], outcome["median"], outcome["max"]), (1, 2, 3))
        self.assertEqual(outcome["raw"], [{"x": 1}])

    def test_a_missed_target_shows(self):
        lines = table({"fast": Outcome(AT_LEAST, [2], []).to_json(),
                       "small": Outcome(AT_MOST, [7], []).to_json()})
        self.assertIn("MISSED", lines[1])
        self.assertIn(">= 2.50", lines[1])
        self.assertTrue(lines[2].endswith("ok"))
        self.assertIn("7.00 MiB", lines[2])

    def test_numbers_have_three_digits(self):
        self.assertEqual([number(x) for x in (0.854, 12.34, 912.4, 0)],
                         ["0.85", "12.3", "912", "0.00"])


if __name__ == "__main__":
    unittest.main()
