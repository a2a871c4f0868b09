"""Tests of reading processes that may end meanwhile."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from .process import cpu_seconds, family_cpu_seconds

_TICKS = os.sysconf("SC_CLK_TCK")


def stat(seconds):
    """A line of /proc/PID/stat, with so much user time."""
    return f"1 (a name) S {'0 ' * 10}{round(seconds * _TICKS)} 0 0 0 0"


class EndsWhenItIsRead(type(pathlib.Path())):
    """A file that can be opened and then not read, as that of a process that ends in
    between; `ended` are the pids of such processes."""

    ended = set()

    def read_text(self, *arguments, **options):
        if int(self.parent.name) in self.ended:
            raise ProcessLookupError(3, "No such process")
        return super().read_text(*arguments, **options)


class CpuSeconds(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.proc = EndsWhenItIsRead(folder.name)
        EndsWhenItIsRead.ended = set()

    def runs(self, pid, seconds):
        (self.proc / str(pid)).mkdir(exist_ok=True)
        (self.proc / str(pid) / "stat").write_text(stat(seconds))

    def test_a_process_that_has_ended_is_one_error(self):
        with self.assertRaises(ProcessLookupError):
            cpu_seconds(1, self.proc)
        self.runs(1, 5)
        EndsWhenItIsRead.ended = {1}
        with self.assertRaises(ProcessLookupError):
            cpu_seconds(1, self.proc)

    def test_a_child_that_ends_meanwhile_counts_in_its_parent(self):
        self.runs(1, 10)
        self.runs(2, 3)
        self.runs(3, 4)
        lists = [[2, 3], [2]]

        def children():
            running = lists.pop(0)
            if 3 in running:
                # It ends now, and its parent's sum has its time.
                EndsWhenItIsRead.ended = {3}
                self.runs(1, 14)
            return running

        self.assertAlmostEqual(family_cpu_seconds(1, children, self.proc), 17)
        self.assertEqual(lists, [])

    def test_children_that_always_end_do_not_fail_it(self):
        self.runs(1, 10)
        self.assertAlmostEqual(family_cpu_seconds(1, lambda: [7], self.proc), 10)

    def test_a_parent_that_has_ended_does(self):
        with self.assertRaises(ProcessLookupError):
            family_cpu_seconds(1, lambda: [], self.proc)

    def test_real_processes_are_read(self):
        child = subprocess.Popen(["sleep", "60"])
        try:
            total = family_cpu_seconds(os.getpid(), lambda: [child.pid])
            self.assertGreater(total, 0)
        finally:
            child.kill()
            child.wait()
        self.assertGreater(family_cpu_seconds(os.getpid(), lambda: [child.pid]), 0)


if __name__ == "__main__":
    unittest.main()
