import pathlib
import tempfile
import unittest

from .mutation import BadBug, Edit, parse

_EDIT = """\
core/uuid.cc: Uuid Uuid::Random() {
- return a;
+ return b;
"""


class ParseTest(unittest.TestCase):

    def parse(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "no_lock.txt"
            path.write_text(text)
            return parse(path)

    def test_a_bug(self):
        mutation = self.parse("A lock is left out\n\nCaught-by: simulation\n"
                              "Caught-by: a_test Some.*\nQuick: yes\n\n" + _EDIT
                              + "\ncore/key.cc\n- a\n- b\n")
        self.assertEqual(mutation.name, "no_lock")
        self.assertEqual(mutation.what, "A lock is left out")
        self.assertEqual(mutation.suites, ("simulation", "a_test Some.*"))
        self.assertTrue(mutation.quick)
        self.assertEqual(mutation.files, ("core/uuid.cc", "core/key.cc"))
        self.assertEqual(mutation.edits[0], Edit("core/uuid.cc", "Uuid Uuid::Random() {",
                                                 " return a;", " return b;"))
        self.assertEqual(mutation.edits[1], Edit("core/key.cc", "", " a\n b", ""))

    def test_is_not_quick_unless_it_is_marked_so(self):
        self.assertFalse(self.parse("A\n\nCaught-by: simulation\n\n" + _EDIT).quick)

    def test_files_that_are_no_bugs(self):
        head = "\n\nCaught-by: simulation\n\n"
        for text in ("A lock\n\n" + _EDIT,
                     "A lock" + head,
                     "no capital" + head + _EDIT,
                     "A" * 77 + head + _EDIT,
                     "A lock." + head + _EDIT,
                     "A lock\n\nCought-by: simulation\n\n" + _EDIT,
                     "A lock\nthat is left out" + head + _EDIT,
                     "A lock" + head + "core/uuid.cc\n+ only more\n",
                     "A lock" + head + "core/uuid.cc\n- a\nno sign\n"):
            with self.subTest(text), self.assertRaises(BadBug):
                self.parse(text)


class EditTest(unittest.TestCase):

    def test_it_is_found_however_its_lines_are_broken(self):
        edit = Edit("a.cc", "", "Do(first,\n   second);", "Do(second, first);")
        self.assertEqual(edit.applied("x;\n  Do(first, second);\ny;\n"),
                         "x;\n  Do(second, first);\ny;\n")

    def test_comments_in_between_do_not_matter(self):
        edit = Edit("a.cc", "", "a;\nb;", "b;")
        self.assertEqual(edit.applied("a;\n  // Why.\n  b;\n"), "b;\n")

    def test_the_anchor_chooses(self):
        text = "int F() {\n  return a;\n}\nint G() {\n  return a;\n}\n"
        edit = Edit("a.cc", "int G() {", "return a;", "return b;")
        self.assertEqual(edit.applied(text), text[:-len("return a;\n}\n")] + "return b;\n}\n")

    def test_a_place_that_is_not_there_or_not_one(self):
        for edit in (Edit("a.cc", "", "b;", ""), Edit("a.cc", "", "a;", ""),
                     Edit("a.cc", "int F()", "a;", ""), Edit("a.cc", "a;", "a;", "")):
            with self.subTest(edit), self.assertRaises(BadBug):
                edit.applied("a; a;")
