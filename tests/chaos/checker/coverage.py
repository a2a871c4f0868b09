"""A run in which nothing could fail proves nothing: the events that it must have met."""

import bisect
import collections
import dataclasses

from .events import NEVER
from .service import Service
from .violation import Violation

VERDICTS = ("reserved", "replay", "in_flight", "mismatch", "outcome_unknown", "expired")
PHASES = ("reserving", "executing", "recording")


@dataclasses.dataclass
class Thresholds:
    """The minimum for a run; a short one has less."""

    verdicts: tuple = VERDICTS
    per_verdict: int = 100
    ok_share: float = 0.6
    # How often each kind of fault must begin in each phase of a call...
    per_fault_phase: int = 1
    # ... but for this share of all pairs of a kind and a phase. The start of a fault is random:
    # of some two hundred pairs a few are met less often in almost every run.
    rare_share: float = 0.0
    # Kinds of faults that must have happened.
    faults: tuple = ()
    # The maximum number of keys with too many orders to check.
    undecided_share: float = 0.01


class Coverage:
    """Counts, over all records, the events of a run. One for each part of it; merge() adds them
    up."""

    name = "coverage"

    def __init__(self):
        self.operations = 0
        self.outcomes = collections.Counter()
        self.events = collections.Counter()
        self.met = collections.Counter()
        self.service = Service()

    def see(self, history):
        executions = {}
        for execution in history.executions:
            executions.setdefault(execution.call, execution)
        effects = {effect.attempt: effect for effect in history.effects}
        self.operations += len(history.operations)
        self.service.see(history)
        for op in history.operations:
            self.events[op.event] += 1
            self.outcomes[op.verdict] += 1
            if op.kind == "call" and history.run.faults:
                self._meet(history.run, op, executions.get(op.id), effects)

    def _meet(self, run, op, execution, effects):
        if execution is None:
            self._count(run, "reserving", op.server, op.sent_at, op.answered)
            return
        server = execution.server
        effect = effects.get(execution.attempt)
        acted = effect.at if effect and execution.started <= effect.at <= execution.ended else None
        done = min(execution.ended, acted or NEVER)
        self._count(run, "reserving", server, op.sent_at, execution.started)
        self._count(run, "executing", server, execution.started, min(done, op.answered))
        self._count(run, "recording", server, done, op.answered)

    def _count(self, run, phase, server, since, until):
        if since >= until:
            return
        # A process that was killed leaves no end: a few seconds are assumed for it.
        until = min(until, since + run.lease)
        began = run.fault_times
        for n in range(bisect.bisect_left(began, since), len(began)):
            if began[n] > until:
                break
            fault = run.faults[n]
            if fault.servers is None or server in fault.servers:
                self.met[fault.kind, phase] += 1

    def merge(self, other):
        self.operations += other.operations
        for name in ("outcomes", "events", "met"):
            getattr(self, name).update(getattr(other, name))
        self.service.merge(other.service)

    def rare(self, kinds, thresholds):
        """The message for pairs that were met too seldom."""
        wanted = thresholds.per_fault_phase
        for kind in kinds:
            if wanted and not any(self.met[kind, phase] for phase in PHASES):
                yield f"fault {kind} met no call"
        pairs = [(kind, phase) for kind in kinds for phase in PHASES]
        rare = [pair for pair in pairs if self.met[pair] < wanted]
        if len(rare) > thresholds.rare_share * len(pairs):
            for kind, phase in rare:
                yield (f"fault {kind} met {self.met[kind, phase]} calls that were {phase}, at "
                       f"least {wanted} are wanted")

    def check(self, run, thresholds, orders):
        """Yields the faults that the run lacks. `orders` is (decided, undecided) of the
        invariant `order`."""
        def lacks(message):
            return Violation(self.name, None, message, [])

        for verdict in thresholds.verdicts:
            if self.outcomes[verdict] < thresholds.per_verdict:
                yield lacks(f"verdict {verdict} was met {self.outcomes[verdict]} times, "
                            f"at least {thresholds.per_verdict} are wanted")
        share = self.events["ok"] / self.operations if self.operations else 0
        if share < thresholds.ok_share or not self.operations:
            yield lacks(f"{share:.1%} of {self.operations} operations were ok, at least "
                        f"{thresholds.ok_share:.0%} are wanted")
        kinds = {fault.kind for fault in run.faults}
        for kind in sorted(set(thresholds.faults) - kinds):
            yield lacks(f"fault {kind} did not happen")
        yield from map(lacks, self.rare(sorted(kinds), thresholds))
        yield from map(lacks, self.service.lacks(run))
        decided, undecided = orders
        if undecided > thresholds.undecided_share * (decided + undecided):
            yield lacks(f"the order of {undecided} of {decided + undecided} records was too "
                        "long to look for")
        if run.seed is None:
            yield lacks("the log has no seed")
        if run.faults_ended is None:
            yield lacks("the log does not say when the last fault was over")
