"""What the profiles of a campaign may change."""

import dataclasses

from ..postgres_faults import PostgresFaults
from ..records.postgres_records import PostgresRecords
from ..sweep_faults import SweepFaults


@dataclasses.dataclass(frozen=True)
class Profile:
    # The flags of every daemon, and of every guarded server with a ledger.
    daemon_flags: tuple = ()
    ledger_flags: tuple = ()
    # Operations whose first reservation a crash of the store may lose.
    relaxed: tuple = ()
    # A class of Records: where the daemons keep them.
    records: type = PostgresRecords
    # Classes as PostgresFaults: the faults of the records' store and of the ledger's.
    faults: tuple = (PostgresFaults, SweepFaults)

    def run_fields(self):
        """Of the history's line `run`."""
        return {"relaxed": list(self.relaxed)} if self.relaxed else {}
