"""A full disk accepts no bytes, and accepts them again afterwards."""

import errno
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from tests.chaos.campaign.small_disk import SmallDisk, unshare_mounts

_NOT_ALLOWED = 77


def _write(path):
    """None, or the reason why not."""
    try:
        path.write_bytes(b"x" * 4096)
    except OSError as error:
        return error.errno
    return None


def _fill_one(folder):
    """In a process of its own, so that no other process sees its mounts."""
    if unshare_mounts() is not None:
        return _NOT_ALLOWED
    disk = SmallDisk(folder, 4)
    assert _write(disk.folder / "before") is None
    disk.fill()
    assert disk.free_bytes() == 0
    assert _write(disk.folder / "meanwhile") == errno.ENOSPC
    disk.fill()
    disk.empty()
    disk.empty()
    assert _write(disk.folder / "after") is None
    disk.close()
    assert not os.listdir(folder)
    return 0


class SmallDiskTest(unittest.TestCase):
    def test_full_and_not(self):
        with tempfile.TemporaryDirectory() as folder:
            disk = pathlib.Path(folder) / "disk"
            done = subprocess.run([sys.executable, "-m", __spec__.name, str(disk)], check=False,
                                  capture_output=True, text=True, timeout=60)
            if done.returncode == _NOT_ALLOWED:
                self.skipTest("mounting is not allowed")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertFalse(os.path.ismount(disk))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        sys.exit(_fill_one(sys.argv[1]))
    unittest.main()
