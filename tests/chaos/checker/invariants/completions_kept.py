"""An acknowledged completion stays, through crash and failover."""

from .invariant import Invariant

_NOT_COMPLETED = frozenset(("reserved", "in_flight", "outcome_unknown", "expired"))


class CompletionsKept(Invariant):
    name = "kept"

    def check(self, history):
        acknowledgements = [op for op in history.operations if op.completes]
        # `Get` shows records that a failover may still revert, and acknowledges nothing before
        # that.
        final = history.run.faults_ended or 0
        acknowledgements += [probe for probe in history.probes
                             if probe.state == "COMPLETED" and probe.sent_at >= final]
        if not acknowledgements:
            return
        for life in history.lives:
            first = min((ack for ack in acknowledgements
                         if history.lives_of(ack.sent_at, ack.settled_at) == [life]),
                        key=lambda ack: ack.settled_at, default=None)
            if first is not None:
                yield from self._lost(history, first, life.alive_until)

    def _lost(self, history, ack, until):
        for op in history.operations:
            if (op.sent_at > ack.settled_at and op.settled_at < until and op.verdict in _NOT_COMPLETED
                    and op.event != "unknown" and op.kind in ("call", "reserve")):
                yield self.broken(history, f"acknowledged as completed, and later {op.verdict}", ack,
                                  op)
        for probe in history.probes:
            if probe.sent_at > ack.settled_at and probe.settled_at < until and probe.state != "COMPLETED":
                yield self.broken(history, f"acknowledged as completed, and later {probe.state}",
                                  ack, probe)
        for execution in history.executions:
            call = history.call_of(execution)
            if call and call.sent_at > ack.settled_at and execution.started < until:
                yield self.broken(history, "acknowledged as completed, and ran again", ack,
                                  execution)
