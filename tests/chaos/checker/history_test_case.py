"""A history of a few stories, and the checker's findings in it."""

import tempfile
import unittest

from .checker import check
from .coverage import Thresholds
from .legal_histories import LEASE_MS, MS, LegalLog, Story

ANYTHING = Thresholds(per_verdict=0, ok_share=0, per_fault_phase=0)
END = 30_000 * MS


class HistoryTest(unittest.TestCase):
    """One run of a few stories; the last fault ends at 21 s, keys have to settle until 33 s."""

    def setUp(self):
        self.log = LegalLog(1, 0)
        self.stories = 0

    def story(self, ledger=False):
        self.stories += 1
        return Story(self.log, self.log.rng, self.stories, 1000 * MS, ledger)

    def completed(self, ledger=False):
        story = self.story(ledger)
        call = story.send()
        story.run(call)
        story.ok(call)
        return story

    def granted(self, story, token="t1", attempt=1, at=None, fp="a", lease_ms=LEASE_MS, **fields):
        call = story.send(at, fp, "reserve", **fields)
        story.answer(call, "ok", "reserved", None if at is None else at + MS, token=token,
                   attempt=attempt, lease_ms=lease_ms)

    def write(self, story, kind, token, event="ok", verdict="completed", **fields):
        story.answer(story.send(kind=kind, token=token, **fields), event, verdict)

    def report(self):
        with tempfile.TemporaryDirectory(prefix="chaos-checker-test.") as folder:
            self.log.write(folder)
            return check(folder, ANYTHING)

    def breaks(self, *invariants):
        report = self.report()
        self.assertEqual(set(report.counts), set(invariants), report.text())
        for violation in report.violations:
            self.assertTrue(violation["lines"])

    def keeps_all(self):
        report = self.report()
        self.assertTrue(report.passed, report.text())
