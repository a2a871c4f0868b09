"""A disk that can be full: a small tmpfs, in a mount namespace that ends with this program."""

import ctypes
import errno
import os
import pathlib
import subprocess
import tempfile

_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS


def _mount(*arguments):
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, timeout=30,
                          check=False)
    if done.returncode != 0:
        raise OSError(done.stderr.strip() or "mount failed")


def unshare_mounts():
    """Afterwards mounts are this program's and its children's alone, and end with the last of
    them. Call it while there is one thread. Returns None, or why that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNTS) != 0:
        return f"mounting is not allowed: {os.strerror(ctypes.get_errno())}"
    try:
        _mount("--make-rprivate", "/")
        with tempfile.TemporaryDirectory(prefix="chaos.") as folder:
            _mount("-t", "tmpfs", "-o", "size=64k", "none", folder)
            subprocess.run(["umount", folder], check=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        return f"mounting is not allowed: {error}"
    return None


class SmallDisk:
    """An empty disk of `megabytes`, mounted on `folder`, which this creates."""

    def __init__(self, folder, megabytes):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        _mount("-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "none", str(self.folder))

    @property
    def _balloon(self):
        return self.folder / "balloon"

    def fill(self):
        """Leaves no room."""
        with open(self._balloon, "wb", buffering=0) as file:
            size = 0
            while (free := self.free_bytes()) > 0:
                try:
                    os.posix_fallocate(file.fileno(), size, free)
                    size += free
                except OSError as error:
                    # Another process took some of it meanwhile.
                    if error.errno != errno.ENOSPC:
                        raise

    def free_bytes(self):
        room = os.statvfs(self.folder)
        return room.f_bavail * room.f_frsize

    def empty(self):
        """Frees the room that fill() took."""
        self._balloon.unlink(missing_ok=True)

    def close(self):
        subprocess.run(["umount", "--lazy", str(self.folder)], check=False, timeout=30)
