"""No part of a record is visible from another scope or namespace."""

from ..record_id import record_id
from .invariant import Invariant


class ScopesApart(Invariant):
    name = "scope"
    survives_loss = True

    def check(self, history):
        expected = None
        for event in [*history.operations, *history.probes, *history.executions]:
            if event.record_id:
                if expected is None:
                    expected = record_id(*history.record)
                if event.record_id.replace("-", "").lower() != expected:
                    yield self.broken(history, f"answered with record {event.record_id}, which is "
                                               "another's", event)
        record = list(history.record)
        for event in [*history.operations, *history.probes]:
            if event.seen is not None and event.seen != record:
                yield self.broken(history, f"what was made for {event.seen} is seen here", event)
        for execution in history.executions:
            if execution.call and history.call_of(execution) is None:
                yield self.broken(history, f"a handler ran in the name of call {execution.call}, "
                                           "which requested another record", execution)
