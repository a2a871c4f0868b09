"""The daemons of the current build have a statement for each record, on one Postgres; earlier builds,
beside them while the daemons are rolled, have statements for whole batches."""

from ..postgres_faults import PostgresFaults
from ..sweep_faults import SweepFaults
from .profile import Profile


class SingleRowSweepFaults(SweepFaults):
    # It reads with one statement, and changes each record with another.
    names = "visit_"
    text = "octet_length(t.fingerprints) = 0, t.open_for_long"


# One Postgres has one clock.
PROFILE = Profile(daemon_flags=("--statements=single-row", "--clock_margin=0"),
                  faults=(PostgresFaults, SingleRowSweepFaults))
