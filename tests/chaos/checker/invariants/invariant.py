"""The checker's interface of every promise."""

from ..violation import Violation


class Invariant:
    """One promise. `check` gets one record's whole history; instances keep nothing between
    two."""

    name = None
    # Holds although a crash of the store may have lost a relaxed reservation of the record.
    survives_loss = False

    def check(self, history):
        """Yields a Violation for each way in which the history breaks the promise."""
        raise NotImplementedError

    def broken(self, history, message, *events):
        lines = [line for event in events if event is not None for line in event.lines]
        return Violation(self.name, history.record, message, lines)
