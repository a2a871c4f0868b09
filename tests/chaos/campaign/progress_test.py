import time
import types
import unittest
from unittest import mock

from tests.chaos.campaign.progress import Progress


class ProgressTest(unittest.TestCase):

    def setUp(self):
        self.now = 100.0
        self.lines = []
        clock = mock.patch.object(time, "monotonic", lambda: self.now)
        clock.start()
        self.addCleanup(clock.stop)
        self.journal = types.SimpleNamespace(faults=0)
        self.progress = Progress(self.lines.append, self.journal, 300)

    def after(self, seconds, faults):
        self.now = 100.0 + seconds
        self.journal.faults = faults
        self.progress()

    def test_nothing_within_the_first_minute(self):
        self.after(59.9, 7)
        self.assertEqual(self.lines, [])

    def test_once_a_minute(self):
        for seconds in (61, 90, 119.5, 120.5, 140):
            self.after(seconds, int(seconds))
        self.assertEqual(self.lines, ["61 of 300 s, 61 faults", "120 of 300 s, 120 faults"])


if __name__ == "__main__":
    unittest.main()
