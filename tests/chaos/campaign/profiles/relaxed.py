"""Methods with a ledger have relaxed reservations. For them the standby is asynchronous, and a
crash or a failover loses some; all of a server's processes are also killed at once."""

import time

from ..postgres_faults import PostgresFaults
from ..sweep_faults import SweepFaults
from .profile import Profile


class RelaxedFaults(PostgresFaults):
    def __init__(self, system, journal, random, links):
        super().__init__(system, journal, random, links)
        self.kinds["kill_9_postgres"] = self.kill_9_postgres

    def kill_9_postgres(self):
        with self._links.whole():
            began = time.monotonic_ns()
            self._postgres.kill_9_primary()
            self._journal.fault("kill_9_postgres", f"pg{self._postgres.primary.number}", began,
                                time.monotonic_ns())


PROFILE = Profile(ledger_flags=("--relaxed",), relaxed=("/idempotency.testing.Probe/Act",),
                  faults=(RelaxedFaults, SweepFaults))
