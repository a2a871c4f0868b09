"""Tests of instructions.py that need neither valgrind nor a build."""

import unittest

import instructions


class Instructions(unittest.TestCase):

    def test_reads_the_sum_of_a_dump(self):
        dump = "version: 1\nevents: Ir\nsummary: 12345\n\nfl=x\nfn=y\n0 12345\ntotals: 12345\n"
        self.assertEqual(instructions.total_of(dump), 12345)
        with self.assertRaises(ValueError):
            instructions.total_of("version: 1\n")

    def test_small_changes_pass(self):
        lines, off = instructions.compare({"a": 1040, "b": 960}, {"a": 1000, "b": 1000})
        self.assertEqual(off, [])
        self.assertIn("+4.0 %", lines[1])

    def test_more_is_off_and_so_is_fewer(self):
        lines, off = instructions.compare({"a": 1060, "b": 940}, {"a": 1000, "b": 1000})
        self.assertEqual(off, ["a", "b"])
        self.assertIn("MORE", lines[1])
        self.assertIn("FEWER", lines[2])

    def test_a_loop_that_is_new_or_gone_is_off(self):
        _, off = instructions.compare({"new": 1}, {"gone": 1})
        self.assertEqual(off, ["gone", "new"])


if __name__ == "__main__":
    unittest.main()
