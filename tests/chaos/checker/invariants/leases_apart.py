"""No two live leases at any time, by the store's clock."""

from .invariant import Invariant

_GIVES_BACK = frozenset(("complete", "release"))


class LeasesApart(Invariant):
    name = "leases"

    def check(self, history):
        for life in history.lives:
            grants = [life.attempts[attempt] for attempt in sorted(life.attempts)]
            for one, two in zip(grants, grants[1:]):
                live_until = (one.lease_end - history.run.slack
                              - history.run.store_jump(one.low, two.high))
                if two.high < live_until and not self._given_back(history, one, two.high):
                    yield self.broken(history, f"attempt {two.attempt} was given while the lease of "
                                               f"attempt {one.attempt} was live", one, two)

    @staticmethod
    def _given_back(history, grant, until):
        if grant.execution is not None and grant.execution.ended <= until:
            return True
        return grant.token is not None and any(
            op.token == grant.token and op.kind in _GIVES_BACK and op.sent_at <= until
            for op in history.operations)
