"""The builds of the daemon that take part."""

import pathlib
import tempfile
import unittest

from tests.chaos.campaign.builds import Builds


class BuildsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.previous = pathlib.Path(folder.name)

    def _make(self, name):
        (self.previous / name / "bin").mkdir(parents=True)
        (self.previous / name / "bin" / "idempotencyd").touch()
        (self.previous / name / "what").write_text(f"of {name}\n", encoding="utf-8")

    def test_none_is_there(self):
        builds = Builds("idempotencyd", self.previous)
        self.assertIsNone(builds.other)
        self.assertIsNone(builds.earlier)
        self.assertIn(str(self.previous), builds.no_other)
        self.assertEqual(builds.to_json(), {})

    def test_one_is_there(self):
        self._make("other")
        builds = Builds("idempotencyd", self.previous)
        self.assertEqual(builds.other.program, (self.previous / "other/bin/idempotencyd").resolve())
        self.assertIsNone(builds.earlier)
        self.assertEqual(builds.to_json(), {"other": "of other"})

    def test_they_are_left_out(self):
        self._make("other")
        self._make("earlier")
        builds = Builds("idempotencyd", None)
        self.assertIsNone(builds.other)
        self.assertIsNone(builds.earlier)
        self.assertIn("--no-previous", builds.no_other)


if __name__ == "__main__":
    unittest.main()
