"""A well-formed call is never refused because of another caller's bytes."""

from .invariant import Invariant

# The workload sends keys, labels and requests that are valid.
_FOR_BAD_BYTES = frozenset(("invalid", "key_invalid"))


class Innocence(Invariant):
    name = "innocence"
    survives_loss = True

    def check(self, history):
        for op in history.operations:
            if op.verdict in _FOR_BAD_BYTES:
                yield self.broken(history, "a valid call was refused as invalid", op)
