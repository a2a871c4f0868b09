"""Every bug has its place in the current product, and names existing suites; each
anti-pattern has one."""

import pathlib
import re
import unittest

from .mutation import read_all
from .suite import suite_of

_ROOT = pathlib.Path(__file__).resolve().parents[2]


class ApplyTest(unittest.TestCase):

    def setUp(self):
        self.mutations = read_all()

    def test_each_applies(self):
        for mutation in self.mutations:
            with self.subTest(mutation.name):
                texts = {file: (_ROOT / file).read_text() for file in mutation.files}
                for edit in mutation.edits:
                    before = texts[edit.file]
                    texts[edit.file] = edit.applied(before)
                    self.assertNotEqual(texts[edit.file], before)

    def test_each_names_suites(self):
        there = set()
        for folder in ("core", "client", "interceptors", "postgres", "server", "tests"):
            for file in (_ROOT / folder).glob("**/CMakeLists.txt"):
                there.update(re.findall(r"idempotency_(?:test|binary)\((\w+)", file.read_text()))
        for mutation in self.mutations:
            for text in mutation.suites:
                with self.subTest(mutation.name):
                    self.assertIn(suite_of(text).targets[0], there)

    def test_each_anti_pattern_has_one(self):
        tests = {f"antipatterns {path.name[:2]}"
                 for path in _ROOT.glob("tests/antipatterns/[0-9][0-9]_*_test.cc")}
        self.assertEqual(tests - {text for mutation in self.mutations
                                  for text in mutation.suites}, set())

    def test_there_are_a_few_for_now_and_then(self):
        quick = [mutation.name for mutation in self.mutations if mutation.quick]
        self.assertIn(len(quick), range(5, 9))
