import os
import pathlib
import tempfile
import time
import unittest

from .workshop import Workshop, refresh


class RefreshTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source = pathlib.Path(folder.name) / "source"
        self.copy = pathlib.Path(folder.name) / "copy"
        (self.source / "core").mkdir(parents=True)
        self.copy.mkdir()
        (self.source / "core" / "a.cc").write_text("a")
        (self.source / "core" / "b.cc").write_text("b")
        refresh(self.source, self.copy)

    def test_it_is_a_copy(self):
        self.assertEqual((self.copy / "core" / "a.cc").read_text(), "a")

    def test_only_what_differs_is_touched(self):
        for name in ("a.cc", "b.cc"):
            os.utime(self.copy / "core" / name, (1, 1))
        (self.copy / "core" / "b.cc").write_text("a planted bug")
        before = time.time() - 5
        refresh(self.source, self.copy)
        self.assertEqual((self.copy / "core" / "a.cc").stat().st_mtime, 1)
        self.assertEqual((self.copy / "core" / "b.cc").read_text(), "b")
        # Newer than the build of the bug, for an original of any age.
        self.assertGreater((self.copy / "core" / "b.cc").stat().st_mtime, before)

    def test_what_is_gone_is_gone(self):
        (self.source / "core" / "a.cc").unlink()
        refresh(self.source, self.copy)
        self.assertFalse((self.copy / "core" / "a.cc").exists())

    def test_the_build_stays(self):
        (self.copy / "build").mkdir()
        (self.copy / "build" / "a.o").touch()
        refresh(self.source, self.copy)
        self.assertTrue((self.copy / "build" / "a.o").exists())


class WorkshopTest(unittest.TestCase):

    def test_nothing_goes_on_beyond_the_end(self):
        with Workshop(1) as workshop:
            workshop.end_at(time.monotonic() + 0.2)
            began = time.monotonic()
            self.assertIsNone(workshop.run(["sleep", "60"], 60)[0])
            self.assertIsNone(workshop.run(["true"], 60)[0])
            self.assertLess(time.monotonic() - began, 30)

    def test_what_runs_is_ended_with_all_that_it_started(self):
        with Workshop(1) as workshop:
            status, output = workshop.run(["sh", "-c", "sleep 60 & echo $!; wait"], 0.5)
            self.assertIsNone(status)
        stat = pathlib.Path(f"/proc/{output.strip()}/stat")
        self.assertTrue(not stat.exists() or ") Z " in stat.read_text())
