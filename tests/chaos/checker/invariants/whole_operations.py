"""An operation whose outcome is unknown turns out applied or not, never half."""

from .invariant import Invariant


class WholeOperations(Invariant):
    name = "whole"

    def check(self, history):
        if not history.probes:
            return
        own = history.own_replies()
        sent = [op.sent_at for op in history.operations if op.kind in ("call", "reserve")]
        for probe in history.probes:
            if not probe.whole:
                yield self.broken(history, f"{probe.state}, and parts of that are missing", probe)
            if probe.state == "COMPLETED" and probe.content == "full":
                if probe.reply is None:
                    yield self.broken(history, "COMPLETED without a reply", probe)
                elif probe.reply not in own:
                    yield self.broken(history, f"COMPLETED with reply {probe.reply}, which nobody "
                                               "made", probe)
            if probe.state != "NONE" and not any(at <= probe.settled_at for at in sent):
                yield self.broken(history, f"{probe.state}, and nobody had reserved it", probe)
        yield from self._committed(history)

    def _committed(self, history):
        """With the ledger the effect and the record end in the same way."""
        if not history.executions or not all(e.ledger for e in history.executions):
            return
        last = history.probes[-1]
        effect = history.effects[0] if history.effects else None
        if effect and effect.reply is not None and last.state == "COMPLETED" and (
                last.content == "full" and last.reply not in (None, effect.reply)):
            yield self.broken(history, "the effect is of one attempt, the reply of another", effect,
                              last)
