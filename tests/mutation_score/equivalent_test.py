import pathlib
import tempfile
import unittest

from .candidates import Mutant, product_files, squeezed
from .equivalent import BadArgument, optimised, parse, read

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


class FakeVariant:
    """Compiles nothing; records the commands."""

    def __init__(self, folder):
        self._object = f"{folder}/objects/a.o"
        self.ran = []

    def command_of(self, _):
        return ["clang++", "-O0", "-g0", "-Xclang", "-include-pch", "-Xclang", "a.pch",
                "-Xclang", "-include", "-Xclang", "a.hxx", "-o", self._object, "-c", "a.cc"], "."

    def run(self, command, _):
        self.ran.append(command)
        return 1, ""


class OptimisedTest(unittest.TestCase):

    def test_headers_that_were_compiled_without_optimisation_are_not_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            variant = FakeVariant(folder)
            self.assertIsNone(optimised(variant, "a.cc"))
            self.assertEqual(variant.ran, [[
                "env", "-C", ".", "clang++", "-Xclang", "-include", "-Xclang", "a.hxx", "-o",
                f"{folder}/objects/a.optimised.o", "-c", "a.cc", "-O2", "-DNDEBUG", "-w"]])


class ArguedTest(unittest.TestCase):

    def test_each_is_of_a_text_that_there_is(self):
        files = set(product_files(_ROOT))
        for argued in read():
            with self.subTest(argued.original):
                self.assertIn(argued.file, files)
                # Comments within a statement are not part of it.
                self.assertTrue(argued.original in squeezed((_ROOT / argued.file).read_text()),
                                f"{argued.file} has no such text any more")
                self.assertNotEqual(argued.original, argued.mutated)
