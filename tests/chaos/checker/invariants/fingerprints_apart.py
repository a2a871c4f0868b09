"""Another request with the same key never gets OK, a replay or a grant."""

from .invariant import Invariant


class FingerprintsApart(Invariant):
    name = "fingerprint"

    def check(self, history):
        accepted = [op for op in history.operations
                    if op.ok and op.kind in ("call", "reserve") and op.fp is not None
                    and op.verdict in ("reserved", "replay")]
        accepted += [execution for execution in history.executions if execution.fp is not None]
        firsts = {}
        for event in sorted(accepted, key=self._settled_at):
            lives = history.lives_of(self._sent_at(history, event), self._settled_at(event))
            if len(lives) > 1:
                continue
            first = firsts.setdefault(id(lives[0]), event)
            if first.fp != event.fp:
                yield self.broken(history, f"request {event.fp} was accepted with the key of "
                                           f"request {first.fp}", first, event)
        for execution in history.executions:
            call = history.call_of(execution)
            if call and None not in (call.fp, execution.fp) and call.fp != execution.fp:
                yield self.broken(history, f"the handler got request {execution.fp}, the client "
                                           f"sent {call.fp}", call, execution)
        sent = {op.fp for op in history.operations if op.fp is not None}
        if len(sent) == 1:
            for op in history.operations:
                if op.event == "fail" and op.verdict == "mismatch":
                    yield self.broken(history, "a mismatch, and only one request was ever sent", op)

    @staticmethod
    def _sent_at(history, event):
        if hasattr(event, "sent_at"):
            return event.sent_at
        # A handler that was slow to start belongs to the time of its request.
        call = history.call_of(event)
        return call.sent_at if call else event.started

    @staticmethod
    def _settled_at(event):
        return event.settled_at if hasattr(event, "settled_at") else event.started
