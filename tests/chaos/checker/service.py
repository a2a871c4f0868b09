"""The share of calls that were served beside a hostile caller."""

import collections

from .run import MS

# The ends of a fault that must not affect the other callers are not checked: at first earlier
# calls are still open (Fault.settled), and at last some would end after it. The longest time
# that a client waits for an answer:
ANSWERED_NS = 4000 * MS
# The reasons with which gRPC, the guard or the service replace a verdict.
_UNSERVED_CODES = frozenset(("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED",
                             "RESOURCE_EXHAUSTED"))
_UNSERVED_VERDICTS = frozenset(("unavailable", "overloaded", "quota"))


def is_served(op):
    """The caller got a definite answer, or an error that the handler itself made."""
    if op.verdict in _UNSERVED_VERDICTS:
        return False
    if op.event != "unknown":
        return True
    return op.kind == "call" and op.code is not None and op.code not in _UNSERVED_CODES


class Service:
    """Counts by kind of fault. One for each part of a run; merge() adds them up."""

    def __init__(self):
        self.sent = collections.Counter()
        self.unserved = collections.Counter()

    def see(self, history):
        for fault in history.run.serving:
            since, until = fault.began + fault.settled, fault.ended - ANSWERED_NS
            for op in history.operations:
                if since <= op.sent_at <= until:
                    self.sent[fault.kind] += 1
                    self.unserved[fault.kind] += not is_served(op)

    def merge(self, other):
        self.sent.update(other.sent)
        self.unserved.update(other.unserved)

    def lacks(self, run):
        """Yields the faults, in words."""
        wanted = {fault.kind: fault.served for fault in run.serving}
        for kind, share in sorted(wanted.items()):
            sent = self.sent[kind]
            if sent == 0:
                yield f"no calls while {kind} went on"
                continue
            served = 1 - self.unserved[kind] / sent
            if served < share:
                yield (f"{served:.1%} of {sent} calls were served during {kind}, at least "
                       f"{share:.0%} are wanted")

    def to_json(self):
        return {kind: {"calls": self.sent[kind], "unserved": self.unserved[kind]}
                for kind in sorted(self.sent)}
