"""An attempt that lost its reservation can never write."""

from .invariant import Invariant

_WRITES = frozenset(("complete", "release", "extend"))


class StaleTokens(Invariant):
    name = "stale"

    def check(self, history):
        writes = [op for op in history.operations if op.kind in _WRITES]
        if not writes:
            return
        grants = {grant.token: grant for grant in history.grants if grant.token is not None}
        for op in writes:
            if op.ok:
                yield from self._accepted(history, op, grants.get(op.token))
        yield from self._refused_replies(history, writes)

    def _accepted(self, history, op, grant):
        if grant is None:
            yield self.broken(history, f"{op.kind} was accepted with a token that was never given",
                              op)
            return
        life = next(life for life in history.lives if grant in life.grants
                    or life is history.lives[-1])
        for later in life.grants:
            if later.attempt > grant.attempt and later.high < op.sent_at:
                yield self.broken(history, f"{op.kind} was accepted with the token of attempt "
                                           f"{grant.attempt}, after attempt {later.attempt} was "
                                           "given", grant, later, op)
                return

    def _refused_replies(self, history, writes):
        """A completion that was refused left nothing behind."""
        refused = {op.sent_reply: op for op in writes
                   if op.kind == "complete" and op.event == "fail" and op.verdict == "lost"}
        if not refused:
            return
        for op in writes:
            if op.kind == "complete" and not (op.event == "fail" and op.verdict == "lost"):
                refused.pop(op.sent_reply, None)
        for execution in history.executions:
            refused.pop(execution.reply, None)
        for seen in [*history.operations, *history.probes]:
            if seen.reply is not None and seen.reply in refused:
                yield self.broken(history, "a refused completion's reply is stored",
                                  refused[seen.reply], seen)
                return
