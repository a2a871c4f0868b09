"""Raw operations, also those of one batch, equal some order of themselves, one after the other."""

import collections

from ..events import NEVER
from .invariant import Invariant

# The store's state of a record. `token` is ("?", id) where the grant's answer was lost; a
# repeat with the same request token gets it.
State = collections.namedtuple("State", "name attempt token request_token fp policy reply")
# Refused before the request reached the store.
_TURNED_AWAY = frozenset(("quota", "overloaded", "key_missing", "key_invalid", "invalid"))
NOTHING = State("NONE", 0, None, None, None, None, None)


class SerialOrder(Invariant):
    """Searches for an order in which the contract's table gives every observed answer.

    Checks records that only raw operations touched. Whether a lease was over is
    left open (leases_apart checks that): in flight and taken over are both
    allowed to a reserved record.
    """

    name = "order"
    # Orders tried before it stops on a record, which `undecided` then counts.
    LIMIT = 50_000

    def __init__(self):
        self.undecided = 0
        self.decided = 0

    def check(self, history):
        if not history.raw or history.keyless or not history.operations:
            return
        events = sorted([*history.operations, *history.probes], key=lambda event: event.sent_at)
        ends = max(event.settled_at for event in events if event.settled_at != NEVER) if any(
            event.settled_at != NEVER for event in events) else 0
        if len(history.lives) > 1 or ends >= history.lives[0].alive_until:
            return  # Forgotten in between: the other invariants check lives.
        found, furthest = self._search(events)
        if found is None:
            self.undecided += 1
            return
        self.decided += 1
        if not found:
            batch = getattr(furthest, "batch", None)
            of = f" (of batch {batch})" if batch else ""
            answer = getattr(furthest, "verdict", None) or furthest.state
            yield self.broken(history, f"no order of the operations explains the answer "
                                       f"{answer}{of}", furthest)

    def _search(self, events):
        """(True, None), (False, an event that no order explains), or (None, None): too many."""
        definite = sum(1 << n for n, event in enumerate(events) if event.settled_at != NEVER)
        stack, visited = [(0, NOTHING)], {(0, NOTHING)}
        best, stuck = -1, None
        while stack:
            done, state = stack.pop()
            if done & definite == definite:
                return True, None
            if len(visited) > self.LIMIT:
                return None, None
            candidates = self._next(events, done)
            for key in self._after(events, candidates, done, state):
                if key not in visited:
                    visited.add(key)
                    stack.append(key)
            progress = bin(done & definite).count("1")
            if progress > best:
                best = progress
                stuck = min((events[n] for n in candidates if events[n].settled_at != NEVER),
                            key=lambda event: event.settled_at)
        return False, stuck

    @staticmethod
    def _after(events, candidates, done, state):
        """The results of the candidates, as (done, state)."""
        keys = []
        for n in candidates:
            after = _step(state, events[n])
            # An operation that changes nothing can come at once: any order with it later is
            # possible with it here, too.
            if after == {state}:
                return [(done | 1 << n, state)]
            keys += [(done | 1 << n, one) for one in after]
        return keys

    @staticmethod
    def _next(events, done):
        """Those that can come next: sent before the answer to any other that is left."""
        horizon, candidates = NEVER, []
        for n, event in enumerate(events):
            if event.sent_at > horizon:
                break
            if not done >> n & 1:
                candidates.append(n)
                horizon = min(horizon, event.settled_at)
        return [n for n in candidates if events[n].sent_at <= horizon]


def _step(state, event):
    """The states that the event can lead to, given its answer; for an unknown one all but `state`."""
    before = [state]
    if state.name == "RESERVED" and state.policy == "recovery":
        # If its lease is over it becomes UNKNOWN by itself.
        before.append(state._replace(name="UNKNOWN"))
    if hasattr(event, "state"):
        return {after for one in before for after in _get(one, event)}
    if event.event == "fail" and event.verdict in _TURNED_AWAY:
        return {state}
    table = _APPLIED if event.settled_at == NEVER else _ANSWERED
    after = {after for one in before for after in table[event.kind](one, event)}
    if event.settled_at == NEVER:
        after.discard(state)
    return after


def _get(state, probe):
    if probe.state != state.name:
        return []
    if probe.attempt is not None and state.name != "NONE" and probe.attempt != state.attempt:
        return []
    if state.name == "COMPLETED" and probe.content == "full" and probe.reply != state.reply:
        return []
    return [state]


def _granted(state, op, token):
    return State("RESERVED", state.attempt + 1, token, op.request_token, state.fp or op.fp,
                 state.policy or op.policy, None)


def _may_grant(state, op):
    """Another attempt may be given; of a reserved record only if its lease is over."""
    if state.name in ("NONE", "RELEASED"):
        return True
    if state.name == "RESERVED":
        return state.policy == "take_over" or op.recover
    return state.name == "UNKNOWN" and op.recover


def _same_request(state, op):
    return op.request_token is not None and op.request_token == state.request_token


def _reserve_applied(state, op):
    if state.name != "NONE" and state.fp != op.fp:
        return []
    if state.name == "RESERVED" and _same_request(state, op):
        return []
    if state.name == "RELEASED" and _same_request(state, op):
        return []
    if _may_grant(state, op):
        return [_granted(state, op, ("?", op.id))]
    return []


def _reserve_answered(state, op):
    verdict = op.verdict
    other = state.name != "NONE" and state.fp != op.fp
    if verdict == "mismatch":
        return [state] if other else []
    if verdict == "expired":
        return [state] if state.name == "NONE" else []
    if other:
        return []
    if verdict == "replay":
        same = state.name == "COMPLETED" and (op.content != "full" or op.reply == state.reply)
        return [state] if same else []
    if verdict == "in_flight":
        return [state] if state.name == "RESERVED" and not _same_request(state, op) else []
    if verdict == "outcome_unknown":
        return [state] if state.name == "UNKNOWN" and not op.recover else []
    if verdict == "lost":
        return [state] if state.name == "RELEASED" and _same_request(state, op) else []
    if verdict != "reserved":
        return []
    if state.name == "RESERVED" and _same_request(state, op):
        known = type(state.token) is not tuple
        if op.attempt == state.attempt and (not known or op.token == state.token):
            return [state._replace(token=op.token)]
        return []
    if state.name == "RELEASED" and _same_request(state, op):
        return []
    if _may_grant(state, op) and op.attempt == state.attempt + 1:
        return [_granted(state, op, op.token)]
    return []


def _complete(state, op):
    if op.token == state.token and state.name in ("RESERVED", "UNKNOWN"):
        return [state._replace(name="COMPLETED", reply=op.sent_reply)]
    return []


def _complete_answered(state, op):
    repeated = (state.name == "COMPLETED" and op.token == state.token
                and op.sent_reply == state.reply)
    if op.ok:
        return [state] if repeated else _complete(state, op)
    return [] if repeated or _complete(state, op) else [state]


def _released(op):
    return "UNKNOWN" if op.outcome_unknown else "RELEASED"


def _release(state, op):
    if op.token == state.token and state.name == "RESERVED":
        return [state._replace(name=_released(op))]
    return []


def _release_answered(state, op):
    applied = _release(state, op)
    repeated = op.token == state.token and state.name == _released(op)
    if op.ok:
        return [state] if repeated else applied
    if repeated:
        return []
    # The client sends it again after a broken connection: if the record was granted to another
    # meanwhile, the second gets that answer, and is lost.
    return applied or [state]


def _extend_applied(state, op):
    return [state]  # The lease alone, which this model leaves open.


def _extend_answered(state, op):
    holds = op.token == state.token and state.name == "RESERVED"
    if op.ok:
        return [state] if holds else []
    return [] if holds else [state]


_APPLIED = {"reserve": _reserve_applied, "complete": _complete, "release": _release,
            "extend": _extend_applied}
_ANSWERED = {"reserve": _reserve_answered, "complete": _complete_answered,
             "release": _release_answered, "extend": _extend_answered}
