"""What the profiles of a campaign may change."""

import dataclasses

from ..postgres_faults import PostgresFaults


def _postgres(system, name):
    return system.postgres_url(name)


@dataclasses.dataclass(frozen=True)
class Profile:
    # The flags of every daemon, and of every guarded server with a ledger.
    daemon_flags: tuple = ()
    ledger_flags: tuple = ()
    # Operations whose first reservation a crash of the store may lose.
    relaxed: tuple = ()
    # A class as PostgresFaults: the faults of the store.
    store_faults: type = PostgresFaults
    # The daemon's --store, by (system, the daemon's name).
    store: object = _postgres

    def run_fields(self):
        """Of the history's line `run`."""
        return {"relaxed": list(self.relaxed)} if self.relaxed else {}
