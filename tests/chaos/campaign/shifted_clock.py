"""The clock of one process, which can be set while it runs: libfaketime."""

import glob
import os
import pathlib

_LIBRARY = "/usr/lib/*/faketime/libfaketimeMT.so.1"
# How each begins.
_SANITIZERS = (b"__asan_init", b"__tsan_init")
# The library reads its file when its clock has advanced by more than this.
_LOOKS_AFTER_S = 0


def why_not(program):
    """None if the program's clock can be shifted, else the reason."""
    if not glob.glob(_LIBRARY):
        return "libfaketime is not installed (Debian's package faketime)"
    content = pathlib.Path(program).read_bytes()
    if any(entry in content for entry in _SANITIZERS):
        return "a sanitizer and libfaketime both want to be loaded first"
    return None


class ShiftedClock:
    """Of the process that is started with `prefix`. Only its wall clock: clocks that measure
    durations do not jump in reality either, and all histories use them."""

    def __init__(self, path):
        self._path = path
        self.prefix = ["env", f"LD_PRELOAD={glob.glob(_LIBRARY)[0]}",
                       f"FAKETIME_TIMESTAMP_FILE={path}",
                       f"FAKETIME_CACHE_DURATION={_LOOKS_AFTER_S}",
                       "FAKETIME_DONT_FAKE_MONOTONIC=1"]

    # Once this has passed, a new shift counts.
    noticed_after_s = _LOOKS_AFTER_S + 1.2

    def shift(self, seconds):
        """Afterwards its clock is ahead, or behind, by that."""
        new = f"{self._path}.new"
        with open(new, "w", encoding="ascii") as file:
            file.write(f"{seconds:+}s\n")
        # Never half a file for a reader.
        os.replace(new, self._path)

    @staticmethod
    def clean_up_after(pid):
        """The remains that the library leaves of a process that was killed."""
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
            try:
                os.unlink(f"/dev/shm/{name}")
            except FileNotFoundError:
                pass
