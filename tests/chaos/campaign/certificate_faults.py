"""Gives a daemon another certificate."""

import time


class CertificateFaults:
    """To be run by the thread that started the processes."""

    def __init__(self, system, journal, random):
        self._system = system
        self._journal = journal
        self._random = random
        self.kinds = {"rotate_certificates": self.rotate_certificates}
        self.impossible = {}

    def rotate_certificates(self):
        """Another certificate and key, of another authority, in the place of a daemon's files. It
        reads them when it starts."""
        name = self._random.choice(self._system.names("daemon"))
        began = time.monotonic_ns()
        serial = self._system.authority.issue(name)
        self._system.terminate(name)
        self._system.restart(name)
        served = self._system.authority.served(self._system.socket(name))
        if served != serial:
            raise RuntimeError(f"{name} shows certificate {served:x} instead of {serial:x}")
        self._journal.fault("rotate_certificates", name, began, time.monotonic_ns())
