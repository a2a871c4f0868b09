"""Within a lease, a pause and ten seconds after the last fault every key has settled."""

from .invariant import Invariant

# The call was refused before anything could have been reserved for it.
_NEVER_STARTED = frozenset(("key_missing", "key_invalid", "mismatch", "expired", "quota",
                            "overloaded", "invalid"))
# After these nothing of the call stays open, under any later fault.
_FOR_GOOD = frozenset(("expired", "outcome_unknown"))
_SETTLED = frozenset(("reserved", "replay", "completed", "released", "expired", "outcome_unknown"))


class Liveness(Invariant):
    name = "liveness"
    survives_loss = True

    def check(self, history):
        deadline = history.run.settle_by
        if deadline is None or history.keyless:
            return
        for op in history.operations:
            if op.sent_at > deadline and op.event != "ok" and op.verdict in ("none", "unavailable"):
                yield self.broken(history, "not answered, long after the last fault", op)
        if all(op.event == "fail" and op.verdict in _NEVER_STARTED for op in history.operations):
            return
        if self._completed(history, deadline) or self._settled(history, deadline):
            return
        last = max([*history.operations, *history.probes], key=lambda event: event.sent_at,
                   default=None)
        seen = "nothing" if last is None else (
            last.state if hasattr(last, "state") else f"{last.event}/{last.verdict}")
        yield self.broken(history, f"not settled when it had to be; last seen: {seen}", last)

    @staticmethod
    def _settles(op):
        """The answer contains the record's state."""
        return op.verdict != "mismatch" and op.kind != "extend" and (
            op.kind in ("call", "reserve") or op.event != "fail")

    @staticmethod
    def _completed(history, deadline):
        """A completion at any time is settled: another promise is that it stays so."""
        return (any(op.completes and op.settled_at <= deadline for op in history.operations)
                or any(probe.state == "COMPLETED" and probe.settled_at <= deadline
                       for probe in history.probes))

    def _settled(self, history, deadline):
        """The last answer before the deadline was a final one, and came after the last fault
        unless it holds for good. After a long run it takes long to read every record: the later
        state of one without requests since then is its state from before."""
        since = history.run.faults_ended
        untouched = all(op.sent_at < since for op in history.operations)
        words = [(op.answered, op.event != "unknown" and op.verdict in _SETTLED
                  and not (op.kind == "reserve" and op.verdict == "reserved")
                  and (op.answered >= since or op.verdict in _FOR_GOOD))
                 for op in history.operations
                 if op.answered <= deadline and self._settles(op)]
        words += [(probe.settled_at, (probe.state != "RESERVED" or probe.lapsed) and probe.settled_at >= since)
                  for probe in history.probes if probe.settled_at <= deadline or untouched]
        return bool(words) and max(words)[1]
