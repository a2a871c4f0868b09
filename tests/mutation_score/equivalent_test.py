import pathlib
import unittest

from .candidates import Mutant, product_files, squeezed
from .equivalent import BadArgument, parse, read

_ROOT = pathlib.Path(__file__).resolve().parents[2]


class ParseTest(unittest.TestCase):

    def test_it_is_known_by_its_text(self):
        argued, = parse("# a comment\n\nserver/a.cc\n- if (a) b(c, d);\n+ b(c, d);\n"
                        "a is always true here.\n")
        self.assertEqual(argued.why, "a is always true here.")
        for line in (1, 70):
            self.assertTrue(argued.is_of(Mutant("server/a.cc", line, line + 1, "", "  if (a)\n"
                                                "    b(c, d);\n", "  b(c, d);\n")))
        self.assertFalse(argued.is_of(Mutant("server/b.cc", 1, 1, "", "if (a) b(c, d);\n",
                                             "b(c, d);\n")))
        self.assertFalse(argued.is_of(Mutant("server/a.cc", 1, 1, "", "if (a) b(c, d);\n",
                                             ";\n")))

    def test_what_is_none(self):
        for text in ("server/a.cc\n- a\n+ b\n", "server/a.cc\n+ a\n- b\nwhy\n",
                     "server/a.cc\n- a\n+ b\nwhy\nwhy\n"):
            with self.subTest(text), self.assertRaises(BadArgument):
                parse(text)


class ArguedTest(unittest.TestCase):

    def test_each_is_of_a_text_that_there_is(self):
        files = set(product_files(_ROOT))
        for argued in read():
            with self.subTest(argued.original):
                self.assertIn(argued.file, files)
                # Comments within a statement are not part of it.
                self.assertIn(argued.original, squeezed((_ROOT / argued.file).read_text()))
                self.assertNotEqual(argued.original, argued.mutated)
