"""Gives a daemon another certificate."""

import time

# A daemon reads its files every second.
_SERVED_WITHIN_S = 10


class CertificateFaults:
    """For use by one thread."""

    def __init__(self, system, journal, random):
        self._system = system
        self._journal = journal
        self._random = random
        self.kinds = {"rotate_certificates": self.rotate_certificates}
        self.impossible = {}

    def rotate_certificates(self):
        """Replaces a daemon's certificate and key while it serves, by those of another
        authority.
        Once it presents them, every connected process has to connect again."""
        name = self._random.choice(self._system.names("daemon"))
        began = time.monotonic_ns()
        serial = self._system.authority.issue(name)
        deadline = time.monotonic() + _SERVED_WITHIN_S
        while self._system.authority.served(self._system.socket(name)) != serial:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} does not show its new certificate, {serial:x}")
            time.sleep(0.1)
        for link in self._system.links.names:
            if link.endswith(f"-{name}"):
                self._system.links.command(f"cut {link}")
        self._journal.fault("rotate_certificates", name, began, time.monotonic_ns())
