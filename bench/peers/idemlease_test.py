"""idemlease is left out with a reason that says how to measure it.

  python3 -m bench.peers.idemlease_test
"""

import tempfile
import unittest

from .idemlease import Idemlease
from .packages import LeftOut, Packages


class LeftOutTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="idempotency-idemlease-test.")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.contender = Idemlease()

    def reason(self):
        with self.assertRaises(LeftOut) as raised:
            self.contender.prepare(None, Packages(self.folder))
        return str(raised.exception)

    def test_without_its_sources(self):
        self.assertIn("--idemlease takes a source tree", self.reason())

    def test_with_a_folder_of_something_else(self):
        self.contender.source = self.folder
        self.assertIn("has no folder grpcidem", self.reason())


if __name__ == "__main__":
    unittest.main()
