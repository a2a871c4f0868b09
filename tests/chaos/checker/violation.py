"""A broken promise."""


class Violation:
    """The promise, the record, and the lines that show it."""

    __slots__ = ("invariant", "record", "message", "lines")

    def __init__(self, invariant, record, message, lines):
        self.invariant = invariant
        self.record = record
        self.message = message
        self.lines = lines

    def to_json(self, name):
        return {"invariant": self.invariant, "record": self.record, "message": self.message,
                "lines": [name(line) for line in self.lines]}
