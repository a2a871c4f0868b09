"""Every patch fits the product as it is, without fuzz, names suites that there are, and
docs/testing.md tells of it; each anti-pattern has one."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from .mutation import read_all
from .suite import suite_of
from .table import rows_of

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def refusal(mutation):
    """What patch(1) says against it, with copies of the files that it changes."""
    with tempfile.TemporaryDirectory() as folder:
        for file in mutation.files:
            copy = pathlib.Path(folder) / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_ROOT / file, copy)
        done = subprocess.run(
            ["patch", "-d", folder, "-p1", "--fuzz=0", "-s"], input=mutation.diff,
            capture_output=True, text=True, check=False)
        return done.stdout + done.stderr if done.returncode != 0 else ""


class ApplyTest(unittest.TestCase):

    def setUp(self):
        self.mutations = read_all()

    def test_each_applies(self):
        for mutation in self.mutations:
            with self.subTest(mutation.name):
                self.assertTrue(mutation.files)
                self.assertEqual(refusal(mutation), "", "make it anew")

    def test_each_names_suites(self):
        there = set()
        for folder in ("core", "client", "interceptors", "server", "tests"):
            for file in (_ROOT / folder).glob("**/CMakeLists.txt"):
                there.update(re.findall(r"idempotency_(?:test|binary)\((\w+)", file.read_text()))
        for mutation in self.mutations:
            for text in mutation.suites:
                with self.subTest(mutation.name):
                    self.assertIn(suite_of(text).targets[0], there)

    def test_the_page_tells_of_each(self):
        told = rows_of((_ROOT / "docs/testing.md").read_text())
        self.assertEqual(set(told), {mutation.name for mutation in self.mutations})

    def test_each_anti_pattern_has_one(self):
        tests = {f"antipatterns {path.name[:2]}"
                 for path in _ROOT.glob("tests/antipatterns/[0-9][0-9]_*_test.cc")}
        self.assertEqual(tests - {text for mutation in self.mutations
                                  for text in mutation.suites}, set())

    def test_there_are_a_few_for_now_and_then(self):
        quick = [mutation.name for mutation in self.mutations if mutation.quick]
        self.assertIn(len(quick), range(5, 9))
