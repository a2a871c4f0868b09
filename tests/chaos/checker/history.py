"""All evidence about one record, in order, and its direct consequences."""

from .events import NEVER, Effect, Execution, Operation, Probe
from .run import MS

# A reservation without an answer was given at most this long after it was requested.
_ABANDONED = 30_000 * MS
# The longest time for which a commit that waits for nothing is not on the disk, with a margin.
_UNFLUSHED = 3_000 * MS


class Grant:
    """A reservation that provably existed. It was granted between `low` and `high`."""

    __slots__ = ("low", "high", "attempt", "token", "fp", "lease_end", "execution", "lines")

    def __init__(self, low, high, attempt, token, fp, lease_end, execution, lines):
        self.low = low
        self.high = high
        self.attempt = attempt
        self.token = token
        self.fp = fp
        # Its lease is live at least until here, unless it is released.
        self.lease_end = lease_end
        self.execution = execution
        self.lines = lines


class Life:
    """From a record's first reservation until it is forgotten."""

    __slots__ = ("low", "high", "alive_until", "grants", "attempts")

    def __init__(self, low, high, alive_until):
        self.low = low
        self.high = high
        # Until here the record is certainly not forgotten.
        self.alive_until = alive_until
        self.grants = []
        self.attempts = {}

    def add(self, grant):
        self.grants.append(grant)
        self.attempts[grant.attempt] = grant


class History:
    """One record's events, joined and ordered by time."""

    def __init__(self, record, run):
        self.record = record
        self.run = run
        self.operations = []
        self.executions = []
        self.effects = []
        self.probes = []
        # (first grant, second grant, why they cannot both be)
        self.contradictions = []
        # (the fault, line): lines that cannot be used.
        self.malformed = []
        self._open = {}
        self.by_id = {}

    def add(self, event, line):
        kind = event["event"]
        if kind == "invoke":
            operation = Operation(event, line)
            if operation.id in self.by_id:
                self.malformed.append((f"operation {operation.id} is sent twice", line))
            self.operations.append(operation)
            self.by_id[operation.id] = operation
        elif kind == "start":
            execution = Execution(event, line)
            self.executions.append(execution)
            self._open[line[0], execution.id] = execution
        elif kind == "end":
            self._open.pop((line[0], event["id"])).end(event, line)
        elif kind == "effect":
            effect = Effect(event, line)
            if effect.ledger and effect.reply is None:
                self.malformed.append(("an effect with the ledger needs its reply", line))
            self.effects.append(effect)
        elif kind == "probe":
            self.probes.append(Probe(event, line))
        else:
            self.by_id[event["id"]].answer(event, line)

    def seal(self):
        """Call it once, after the last add()."""
        self.operations.sort(key=lambda operation: operation.sent_at)
        self.executions.sort(key=lambda execution: execution.started)
        self.effects.sort(key=lambda effect: effect.at)
        self.probes.sort(key=lambda probe: probe.sent_at)
        self.keyless = self.record[3] == ""
        self.raw = not self.executions and all(op.kind != "call" for op in self.operations)
        retentions = [op.retention for op in self.operations if op.retention is not None]
        self.retention = min(retentions) * 1_000_000 if retentions else self.run.retention
        self.began = min([op.sent_at for op in self.operations]
                         + [execution.started for execution in self.executions]
                         + [effect.at for effect in self.effects]
                         + [probe.sent_at for probe in self.probes])
        self.grants = sorted(self._handler_grants() + self._raw_grants(),
                             key=lambda grant: grant.high)
        self.lives = self._live()

    def may_have_lost(self):
        """Whether a crash of the store may have lost a relaxed reservation of this record. Only a
        young one can be lost: the log is flushed within a second."""
        last = max([grant.high for grant in self.grants]
                   + [op.sent_at + _ABANDONED for op in self.operations if op.settled_at == NEVER],
                   default=self.began)
        return self.run.may_have_lost(self.record[2], self.began, last + _UNFLUSHED)

    def call_of(self, execution):
        return self.by_id.get(execution.call)

    def _handler_grants(self):
        grants = []
        for execution in self.executions:
            call = self.call_of(execution)
            low = call.sent_at if call else self.began
            lease = self.run.lease if execution.lease is None else execution.lease * 1_000_000
            grants.append(Grant(low, execution.started, execution.attempt, execution.token,
                                execution.fp or (call.fp if call else None), low + lease,
                                execution, execution.lines))
        return grants

    def _raw_grants(self):
        by_token, sent_with = {}, {}
        for op in self.operations:
            if op.kind == "reserve" and op.request_token is not None:
                sent_with.setdefault(op.request_token, op.sent_at)
            if not op.granted:
                continue
            if op.token is None or op.attempt is None:
                self.malformed.append(("a grant needs token and attempt", op.lines[-1]))
                continue
            # A repeat gets the grant that an earlier, unanswered one was given.
            low = min(op.sent_at, sent_with.get(op.request_token, op.sent_at))
            lease = 0 if op.lease is None else op.lease * 1_000_000
            known = by_token.get(op.token)
            if known is None or known.attempt != op.attempt:
                grant = Grant(low, op.settled_at, op.attempt, op.token, op.fp, op.sent_at + lease, None,
                              op.lines)
                by_token.setdefault(op.token, grant)
                if known is not None:
                    self.contradictions.append((known, grant, "one token for two attempts"))
            else:
                known.low = min(known.low, low)
                known.high = min(known.high, op.settled_at)
                known.lease_end = max(known.lease_end, op.sent_at + lease)
        if by_token:
            for op in self.operations:
                if op.kind == "extend" and op.ok and op.lease is not None and op.token in by_token:
                    grant = by_token[op.token]
                    grant.lease_end = max(grant.lease_end, op.sent_at + op.lease * 1_000_000)
        return list(by_token.values())

    def _begin_life(self, low, high):
        alive_until = (low + self.retention - self.run.slack
                       - self.run.store_jump(low, low + self.retention))
        return Life(low, high, alive_until)

    def _live(self):
        lives = []
        for grant in self.grants:
            if not lives:
                lives.append(self._begin_life(grant.low, grant.high))
                lives[0].add(grant)
                continue
            # A handler that was only slow to start may belong to an earlier life.
            for number, life in enumerate(lives):
                late = number + 1 < len(lives) and grant.low >= lives[number + 1].high
                if not late and not self._contradiction(life, grant):
                    life.add(grant)
                    break
            else:
                if grant.high < lives[-1].alive_until:
                    earlier, why = self._contradiction(lives[-1], grant)
                    self.contradictions.append((earlier, grant, why))
                else:
                    lives.append(self._begin_life(max(grant.low, lives[-1].alive_until),
                                                  grant.high))
                    lives[-1].add(grant)
        return lives or [self._begin_life(self.began, NEVER)]

    @staticmethod
    def _contradiction(life, grant):
        same = life.attempts.get(grant.attempt)
        if same is not None:
            return same, f"attempt {grant.attempt} was given twice"
        # Sorted by `high`: only a grant that is in the life already can have been earlier.
        for earlier in life.grants:
            if earlier.high < grant.low and earlier.attempt > grant.attempt:
                return earlier, f"attempt {grant.attempt} came after attempt {earlier.attempt}"
            if (earlier.token is not None and earlier.token == grant.token
                    and earlier.attempt != grant.attempt):
                return earlier, "one token for two attempts"
        return None

    def lives_of(self, since, until):
        """The lives that an event between the two can have seen."""
        if len(self.lives) == 1:
            return self.lives
        return [life for number, life in enumerate(self.lives)
                if life.low <= until and (number + 1 == len(self.lives)
                                          or since <= self.lives[number + 1].high)] or self.lives

    def own_replies(self):
        """The digests of all replies that any handler made for this record."""
        replies = {execution.reply for execution in self.executions}
        replies.update(effect.reply for effect in self.effects)
        replies.update(op.sent_reply for op in self.operations if op.kind == "complete")
        replies.discard(None)
        return replies
