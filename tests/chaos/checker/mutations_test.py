"""Random legal logs pass; with any one violation planted they do not."""

import tempfile
import unittest

from .checker import check
from .coverage import Thresholds
from .invariants import INVARIANTS
from .legal_histories import LegalLog
from .mutations import MUTATIONS

ANYTHING = Thresholds(per_verdict=0, ok_share=0, per_fault_phase=0)
SEEDS = range(3)


def checked(log):
    with tempfile.TemporaryDirectory(prefix="chaos-checker-test.") as folder:
        log.write(folder)
        return check(folder, ANYTHING)


class Mutations(unittest.TestCase):

    def test_every_promise_has_one(self):
        self.assertEqual({invariant.name for invariant in INVARIANTS}, set(MUTATIONS.values()))

    def test_legal_logs_pass(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                report = checked(LegalLog(seed, 1500))
                self.assertTrue(report.passed, report.text())
                self.assertEqual(report.undecided, 0)

    def test_each_violation_is_caught(self):
        for mutation, invariant in MUTATIONS.items():
            for seed in SEEDS:
                with self.subTest(mutation.__name__, seed=seed):
                    self.caught(LegalLog(seed, 200), mutation, invariant)

    def caught(self, log, mutation, invariant):
        stories = list(log.stories)
        log.rng.shuffle(stories)
        story = next(story for story in stories if mutation(story))
        report = checked(log)
        self.assertIn(invariant, report.counts)
        # And no other invariant reports a violation.
        self.assertEqual({tuple(violation["record"]) for violation in report.violations},
                         {tuple(story.record)})


if __name__ == "__main__":
    unittest.main()
