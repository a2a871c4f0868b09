"""The progress of a long run."""

import time

_EVERY_S = 60


class Progress:
    """Called after each fault; reports once a minute."""

    def __init__(self, log, journal, seconds):
        self._log = log
        self._journal = journal
        self._seconds = seconds
        self._began = time.monotonic()
        self._next = _EVERY_S

    def __call__(self):
        passed = time.monotonic() - self._began
        if passed < self._next:
            return
        self._next += _EVERY_S
        self._log(f"{passed:.0f} of {self._seconds} s, {self._journal.faults} faults")
