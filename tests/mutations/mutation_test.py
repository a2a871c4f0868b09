import pathlib
import tempfile
import unittest

from .mutation import BadPatch, parse

_DIFF = """\
diff --git a/core/uuid.cc b/core/uuid.cc
--- a/core/uuid.cc
+++ b/core/uuid.cc
@@ -1 +1 @@
-a
+b
"""


class ParseTest(unittest.TestCase):

    def parse(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "no_lock.patch"
            path.write_text(text)
            return parse(path)

    def test_a_head(self):
        mutation = self.parse("A lock is left out\n\nCaught-by: simulation\n"
                              "Caught-by: a_test Some.*\nQuick: yes\n\n" + _DIFF)
        self.assertEqual(mutation.name, "no_lock")
        self.assertEqual(mutation.what, "A lock is left out")
        self.assertEqual(mutation.suites, ("simulation", "a_test Some.*"))
        self.assertEqual(mutation.files, ("core/uuid.cc",))
        self.assertTrue(mutation.quick)

    def test_is_not_quick_unless_it_says_so(self):
        self.assertFalse(self.parse("A\n\nCaught-by: simulation\n\n" + _DIFF).quick)

    def test_heads_that_are_none(self):
        for text in ("A lock\n\n" + _DIFF,
                     "Caught-by: simulation\n\n",
                     "no capital\n\nCaught-by: simulation\n\n" + _DIFF,
                     "A" * 77 + "\n\nCaught-by: simulation\n\n" + _DIFF,
                     "A lock.\n\nCaught-by: simulation\n\n" + _DIFF,
                     "A lock\n\nCought-by: simulation\n\n" + _DIFF,
                     "A lock\nthat is left out\n\nCaught-by: simulation\n\n" + _DIFF):
            with self.subTest(text), self.assertRaises(BadPatch):
                self.parse(text)
