"""The common data of the whole run: its seed, its limits, its faults, its phases."""

import bisect
import itertools

from .events import Fault

MS = 1_000_000
# Faults after which the store may lack what was not durable.
LOSING = frozenset(("kill_postgres", "kill_9_postgres", "fail_over", "fail_over_behind",
                    "disk_full"))


class Run:
    """Filled from the events that belong to no record, then only read."""

    def __init__(self):
        self.seed = None
        self.lease = 30_000 * MS
        self.retention = 24 * 3600 * 1000 * MS
        # The rounding of answers, and the difference of two readings of a clock.
        self.slack = 50 * MS
        # The longest time before a released record is granted again.
        self.pause = 0
        self.settle_within = 10_000 * MS
        # Operations whose first reservation a crash of the store may lose.
        self.relaxed = frozenset()
        self.faults = []
        # Those that must not affect the other callers.
        self.serving = []
        self.phases = {}
        self._jumps = []
        self._jumped = [0]

    def add(self, event, line):
        kind = event["event"]
        if kind == "run":
            self.seed = event["seed"]
            self.relaxed = frozenset(event.get("relaxed", ()))
            for field in ("lease", "retention", "slack", "pause"):
                if f"{field}_ms" in event:
                    setattr(self, field, int(event[f"{field}_ms"] * MS))
        elif kind == "fault":
            self.faults.append(Fault(event, line))
        elif kind == "phase":
            self.phases[event["phase"]] = (event["t"], line)

    def may_have_lost(self, operation, since, until):
        """Whether a reservation of `operation` between the two times may have been lost."""
        if operation not in self.relaxed:
            return False
        return any(fault.kind in LOSING and fault.began <= until
                   and since <= fault.ended for fault in self.faults)

    def seal(self):
        self.faults.sort(key=lambda fault: fault.began)
        self.fault_times = [fault.began for fault in self.faults]
        self.serving = [fault for fault in self.faults if fault.served is not None]
        jumps = sorted((at, fault.store_shift) for fault in self.faults if fault.store_shift
                       for at in (fault.began, fault.ended))
        self._jumps = [at for at, _ in jumps]
        self._jumped = [0, *itertools.accumulate(shift for _, shift in jumps)]

    def store_jump(self, since, until):
        """By how much longer the time between the two can have been by the store's clock."""
        if not self._jumps:
            return 0
        return (self._jumped[bisect.bisect_right(self._jumps, until)]
                - self._jumped[bisect.bisect_left(self._jumps, since)])

    @property
    def faults_ended(self):
        """The end of the last fault; None if the log does not have it."""
        at = self.phases.get("faults_ended")
        return at[0] if at else None

    @property
    def settle_by(self):
        return None if self.faults_ended is None else (
            self.faults_ended + self.lease + self.pause + self.settle_within)
