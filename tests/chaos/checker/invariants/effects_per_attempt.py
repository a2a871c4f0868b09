"""At most one effect per record while no lease was overrun, else at most one per attempt."""

from .invariant import Invariant


class EffectsPerAttempt(Invariant):
    name = "effects"

    def check(self, history):
        by_life = {}
        for effect in history.effects:
            life, grant = self._granted(history, effect)
            if grant is None:
                yield self.broken(history, f"an effect of attempt {effect.attempt}, which was never "
                                           "given", effect)
                continue
            other = by_life.setdefault(id(life), {}).setdefault(effect.attempt, effect)
            if other is not effect:
                yield self.broken(history, f"two effects of attempt {effect.attempt}", other, effect)
        for effects in by_life.values():
            yield from self._overruns(history, [effects[n] for n in sorted(effects)])
        yield from self._nothing_done(history)

    @staticmethod
    def _granted(history, effect):
        # The latest life that had this attempt when the effect was seen: the rows of a table
        # that is read at the end are seen late, and have one life.
        for life in reversed(history.lives):
            grant = life.attempts.get(effect.attempt)
            if grant is not None and grant.low <= effect.at and (
                    grant.execution is None or grant.execution.server == effect.server
                    or len(history.lives) == 1):
                return life, grant
        return None, None

    def _overruns(self, history, effects):
        """Each effect after the first needs a lease that ran out, or a handler that failed."""
        for first, second in zip(effects, effects[1:]):
            _, one = self._granted(history, first)
            _, two = self._granted(history, second)
            execution = one.execution
            if execution and execution.outcome in ("indefinite", "lost") and (
                    execution.ended <= two.high):
                continue
            lapsed = one.lease_end - history.run.slack - history.run.store_jump(one.low, two.high)
            if two.high < lapsed:
                yield self.broken(history, f"effects of attempts {first.attempt} and "
                                           f"{second.attempt}, and no lease was overrun", first,
                                  second, one, two)

    def _nothing_done(self, history):
        if history.effects or history.keyless:
            return
        for op in history.operations:
            if op.kind == "call" and op.ok and op.code == "OK":
                yield self.broken(history, "answered OK, and there is no effect", op)
                return
