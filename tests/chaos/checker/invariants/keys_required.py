"""A call without a key to a method that needs one never reaches the handler."""

from .invariant import Invariant


class KeysRequired(Invariant):
    name = "key"
    survives_loss = True

    def check(self, history):
        if not history.keyless:
            return
        for execution in history.executions:
            yield self.broken(history, "a handler ran without a key", execution)
        for op in history.operations:
            if op.ok:
                yield self.broken(history, "answered without a key", op)
        for effect in history.effects:
            yield self.broken(history, "an effect without a key", effect)
