"""Attempts strictly rise within a record's life, and each has a token of its own."""

from .invariant import Invariant


class RisingAttempts(Invariant):
    name = "attempts"

    def check(self, history):
        for earlier, later, why in history.contradictions:
            yield self.broken(history, why, earlier, later)
        for life in history.lives:
            lowest = min(life.attempts, default=1)
            if lowest < 1:
                yield self.broken(history, f"attempt {lowest} was given", life.attempts[lowest])
