"""The names in docs/threat_model.md exist: tests, limits, files."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)")


def text_of(*patterns):
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split()
    return "\n".join((ROOT / file).read_text(encoding="utf-8") for file in listed)


class ThreatModelTest(unittest.TestCase):

    def setUp(self):
        page = (ROOT / "docs/threat_model.md").read_text(encoding="utf-8")
        self.names = re.findall(r"`([^`]+)`", page)

    def test_each_test_is_there(self):
        there = {".".join(match) for match in TEST.findall(text_of("*_test.cc"))}
        named = [name for name in self.names if re.fullmatch(r"\w+\.[A-Z]\w+", name)]
        self.assertGreater(len(named), 20)
        for name in named:
            self.assertIn(name, there)

    def test_each_limit_is_there(self):
        limits = text_of("*limits.h", "core/canonical_form.h")
        for name in self.names:
            if re.fullmatch(r"k[A-Z]\w+", name):
                self.assertRegex(limits, rf"\b{name}\b")

    def test_each_member_is_there(self):
        headers = text_of("*.h")
        for name in self.names:
            member = re.fullmatch(r"([A-Z]\w+)::(\w+)", name)
            if member:
                self.assertRegex(headers, rf"(struct|class) {member[1]}\b[^;]*\b{member[2]}\b"
                                          rf"|\b{member[2]} =")

    def test_each_file_is_there(self):
        for name in self.names:
            if name.startswith("tests/"):
                self.assertTrue((ROOT / name).is_file(), name)


if __name__ == "__main__":
    unittest.main()
