import unittest

from .mutation import Mutation
from .table import BEGIN, END, catches, row, rows_of, updated

_PAGE = f"before\n{BEGIN}\n| bug | what is done wrong | caught by |\n|---|---|---|\n" \
        f"| `a` | A | x |\n| `b` | B | y |\n{END}\nafter\n"


class TableTest(unittest.TestCase):

    def test_a_row(self):
        mutation = Mutation("a", "Reads a|b", ("x",), False, (), "")
        self.assertEqual(row(mutation, ["x: A.B", "y: C.D"]),
                         "| `a` | Reads a\\|b | x: A.B; y: C.D |")

    def test_three_tests_are_named(self):
        self.assertEqual(catches("x", ["A", "B", "C"]), "x: A, B, C")
        self.assertEqual(catches("x", ["A", "B", "C", "D", "E"]), "x: A, B, C, and 2 more")

    def test_the_rows_of_a_page(self):
        self.assertEqual(list(rows_of(_PAGE)), ["a", "b"])

    def test_rows_take_the_place_of_those_before(self):
        page = updated(_PAGE, {"b": "| `b` | B | z |", "aa": "| `aa` | AA | x |"},
                       ["a", "aa", "b"])
        self.assertEqual(page, _PAGE.replace("| y |", "| z |").replace(
            "| `b`", "| `aa` | AA | x |\n| `b`"))

    def test_what_is_not_caught_or_not_there_any_more_goes(self):
        page = updated(_PAGE, {"a": None}, ["a"])
        self.assertEqual(rows_of(page), {})
        self.assertTrue(page.startswith("before\n") and page.endswith("\nafter\n"))

    def test_a_page_without_a_place(self):
        with self.assertRaises(ValueError):
            updated("nothing", {}, [])
