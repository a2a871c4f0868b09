"""The glossary names every public type, and has each word once."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFINITION = re.compile(r"^(?:class|struct|enum class) (\w+)\b(?!;)|^using (\w+) =", re.MULTILINE)


def public_types():
    listed = subprocess.run(["git", "ls-files", "include/*.h"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split()
    for header in listed:
        # Types of the namespace `internal` are in its block.
        text = re.sub(r"^namespace internal \{.*?^\}  // namespace internal$", "",
                      (ROOT / header).read_text(), flags=re.MULTILINE | re.DOTALL)
        for defined, alias in DEFINITION.findall(text):
            yield defined or alias


class GlossaryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rows = re.findall(r"^\| (.+?) \| (.+?) \| (.*?) ?\|$",
                          (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
        cls.rows = [row for row in rows if row[0] not in ("word", "---")]

    def test_every_public_type_is_named(self):
        named = set(re.findall(r"`(\w+)", " ".join(row[2] for row in self.rows)))
        self.assertEqual(sorted(set(public_types()) - named), [])

    def test_every_named_type_is_public(self):
        named = set(re.findall(r"`(\w+)", " ".join(row[2] for row in self.rows)))
        self.assertEqual(sorted(named - set(public_types())), [])

    def test_each_word_stands_once(self):
        words = [row[0] for row in self.rows]
        self.assertEqual(sorted(words), sorted(set(words)))
        self.assertGreater(len(words), 20)


if __name__ == "__main__":
    unittest.main()
