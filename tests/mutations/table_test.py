import unittest

from .mutation import Mutation
from .table import catches, report, row


class TableTest(unittest.TestCase):

    def test_a_row(self):
        mutation = Mutation("a", "Reads a|b", ("x",), False, ())
        self.assertEqual(row(mutation, ["x: A.B", "y: C.D"]),
                         "| `a` | Reads a\\|b | x: A.B; y: C.D |")

    def test_three_tests_are_named(self):
        self.assertEqual(catches("x", ["A", "B", "C"]), "x: A, B, C")
        self.assertEqual(catches("x", ["A", "B", "C", "D", "E"]), "x: A, B, C, and 2 more")

    def test_a_report_has_every_row(self):
        self.assertEqual(report(["| `a` | A | x |", "| `b` | B | y |"]).splitlines()[2:],
                         ["| `a` | A | x |", "| `b` | B | y |"])
