"""Freezes a daemon while its sweep step is under way."""

import time

# A pass begins every second or so, and has rows to write while there are calls.
_BEGUN_WITHIN_S = 6
_HELD_MS = 14000
_FROZEN_S = 14
# By then a stream to the frozen daemon is given up: the deadline of a call, and the silence
# that is allowed after it (client/connection/session_connection.h), with some room.
_SETTLED_MS = 7000
# Of the calls of all clients: the sweep holds no lock of any of them.
_SERVED = 0.9
_BEGUN = """
SELECT count(*) FROM pg_stat_activity
 WHERE datname = 'idem' AND query LIKE '%%%s%%' AND query_start >= '%s'
   AND pid <> pg_backend_pid()"""


class SweepFaults:
    """For use by one thread. Links are whole but for one."""

    # The sweep's statements have names that begin like this, and this in their text.
    names = "sweep_"
    text = "idempotency sweep"

    def __init__(self, system, journal, random, links):
        self._system = system
        self._journal = journal
        self._random = random
        self._links = links
        self.kinds = {"freeze_in_sweep": self.freeze_in_sweep}
        self.impossible = {}

    def freeze_in_sweep(self):
        """Postgres has the statement, its session is silent, and the daemon is stopped: the
        state in
        which Postgres and other daemons see a node that is lost in the middle of a step."""
        name = self._random.choice(self._system.names("daemon"))
        with self._links.whole():
            link = f"{name}-pg{self._system.postgres.primary.number}"
            since = self._sql("SELECT clock_timestamp()")
            self._system.links.command(
                f"forward-then-cut {link} match={self.names} hold={_HELD_MS}")
            try:
                if self._wait_until_begun(since):
                    self._freeze(name)
            finally:
                self._system.links.command(f"heal {link}")

    def _wait_until_begun(self, since):
        deadline = time.monotonic() + _BEGUN_WITHIN_S
        while time.monotonic() < deadline:
            if int(self._sql(_BEGUN % (self.text, since)) or 0) > 0:
                return True
            time.sleep(0.05)
        return False

    def _sql(self, query):
        return self._system.postgres.primary.sql(query, "idem").strip()

    def _freeze(self, name):
        process = self._system.processes[name]
        began = time.monotonic_ns()
        process.pause()
        try:
            time.sleep(_FROZEN_S)
        finally:
            process.resume()
        self._journal.fault("freeze_in_sweep", name, began, time.monotonic_ns(), served=_SERVED,
                            settled_ms=_SETTLED_MS)
