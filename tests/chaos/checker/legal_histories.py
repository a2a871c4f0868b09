"""Logs of runs that kept every promise, made by a seed: the checker must accept them."""

import json
import pathlib
import random

from .record_id import record_id

MS = 1_000_000
LEASE_MS = 2000
FAULT_KINDS = ("kill_daemon", "kill_server", "cut_link")


class Story:
    """One record's events in their order. Each goes to the file of the process that saw it."""

    def __init__(self, log, rng, number, at, ledger=None):
        self.log = log
        self.last = None
        self.rng = rng
        self.number = number
        self.at = at
        self.ledger = rng.random() < 0.5 if ledger is None else ledger
        method = "/chaos.v1.Chaos/" + ("Committed" if self.ledger else "Appended")
        self.record = [f"app{number % 2}", f"tenant{number % 5}", method, f"key-{number}"]
        self.calls = 0
        self.reply = f"r{number}"
        self.log.stories.append(self)
        self.events = []

    def put(self, file, event, at, **fields):
        event = {"event": event, "t": int(at), **fields}
        self.events.append((file, event))
        self.log.put(file, event)
        return event

    def later(self, low_ms=1, high_ms=20):
        self.at += int(self.rng.uniform(low_ms, high_ms) * MS)
        return self.at

    def send(self, at=None, fp="a", kind="call", **fields):
        self.calls += 1
        client = f"client{self.rng.randrange(4)}"
        event = self.put(client, "invoke", self.later() if at is None else at,
                         id=f"{self.number}.{self.calls}", client=client, kind=kind, fp=fp,
                         record=self.record, **fields)
        return event["id"], client

    def answer(self, call, event, verdict, at=None, **fields):
        self.put(call[1], event, self.later() if at is None else at, id=call[0], verdict=verdict,
                 **fields)

    def ok(self, call, verdict="reserved", at=None, reply=None):
        self.answer(call, "ok", verdict, at, code="OK", reply=reply or self.reply,
                  replayed=verdict == "replay", record_id=record_id(*self.record),
                  seen=self.record)

    def start(self, call, attempt=1, at=None, fp="a", server=None):
        server = server or f"server{self.rng.randrange(3)}"
        identity = f"x{call[0]}.{attempt}"
        self.put(server, "start", self.later() if at is None else at, id=identity, call=call[0],
                 record=self.record, record_id=record_id(*self.record), attempt=attempt,
                 server=server, ledger=self.ledger, fp=fp, lease_ms=LEASE_MS)
        return identity, server, attempt

    def effect(self, execution, at=None, reply=None):
        self.put("effects", "effect", self.later(20, 60) if at is None else at, record=self.record,
                 attempt=execution[2], server=execution[1], ledger=self.ledger,
                 reply=reply or self.reply)

    def end(self, execution, outcome="ok", at=None, reply=None):
        fields = {"reply": reply or self.reply} if outcome == "ok" else {}
        self.put(execution[1], "end", self.later() if at is None else at, id=execution[0],
                 outcome=outcome, **fields)

    def run(self, call, attempt=1):
        execution = self.start(call, attempt)
        self.effect(execution)
        self.end(execution)

    def probe(self, state="COMPLETED", at=None, attempt=1, reply=None):
        at = self.later() if at is None else at
        self.last = (state, attempt, reply or self.reply)
        fields = {"reply": reply or self.reply} if state == "COMPLETED" else {}
        if state != "NONE":
            fields.update(attempt=attempt, whole=True, record_id=record_id(*self.record))
        self.put("probes", "probe", at, **{"from": int(at - MS)}, record=self.record, state=state,
                 **fields)

    def outlive(self, milliseconds):
        self.at += int(milliseconds * MS)


def plain(story):
    """A call, its retries, and another caller's request with the same key."""
    call = story.send()
    story.run(call)
    story.ok(call)
    for _ in range(story.rng.randrange(5)):
        story.ok(story.send(), "replay")
    if story.rng.random() < 0.3:
        story.answer(story.send(fp="b"), "fail", "mismatch")
    story.probe()


def together(story):
    """Two at once: one is refused while the other runs."""
    first, second = story.send(), story.send()
    execution = story.start(first)
    story.answer(second, "fail", "in_flight")
    story.effect(execution)
    story.end(execution)
    story.ok(first)
    story.ok(story.send(), "replay")
    story.probe()


def killed_before(story):
    """The server crashes before its effect; another takes over after the lease."""
    first = story.send()
    story.start(first)
    story.answer(first, "unknown", "none")
    story.answer(story.send(), "fail", "in_flight")
    story.outlive(LEASE_MS + 10)
    second = story.send()
    story.run(second, 2)
    story.ok(second)
    story.probe(attempt=2)


def killed_after(story):
    """The server crashes after its effect; without the ledger there is another."""
    first = story.send()
    execution = story.start(first)
    story.effect(execution)
    story.answer(first, "unknown", "none")
    story.outlive(LEASE_MS + 10)
    second = story.send()
    if story.ledger:
        story.ok(second, "replay")
    else:
        story.run(second, 2)
        story.ok(second)
    story.probe(attempt=1 if story.ledger else 2)


def answer_lost(story):
    """All work was done, and the client got a failure."""
    call = story.send()
    story.run(call)
    story.answer(call, "unknown", "none")
    story.ok(story.send(), "replay")
    story.probe()


def gave_up(story):
    """A handler fails without reporting its effect, and the next attempt runs at once."""
    first = story.send()
    execution = story.start(first)
    if not story.ledger:
        story.effect(execution)
    story.end(execution, "indefinite")
    story.answer(first, "unknown", "none")
    second = story.send()
    story.run(second, 2)
    story.ok(second)
    story.probe(attempt=2)


def slow_start(story):
    """Attempt 1 was frozen before its handler began: it starts after attempt 2."""
    first = story.send()
    story.outlive(LEASE_MS + 10)
    second = story.send()
    story.run(second, 2)
    story.ok(second)
    late = story.start(first)
    if not story.ledger:
        story.effect(late)
    story.end(late, "lost")
    story.answer(first, "fail", "lost")
    story.probe(attempt=2)


def two_lives(story):
    """A short retention: the key runs again once it was forgotten."""
    story.ledger = False  # Its rows are kept longer than the record.
    call = story.send(retention_ms=3000)
    story.run(call)
    story.ok(call)
    story.probe()
    story.outlive(3100)
    story.reply += "again"
    call = story.send(retention_ms=3000)
    story.run(call)
    story.ok(call)
    story.ok(story.send(retention_ms=3000), "replay")
    story.probe()


def forgotten(story):
    """A key from outside the window."""
    story.answer(story.send(), "fail", "expired")
    story.probe("NONE")


def keyless(story):
    story.record = [*story.record[:3], ""]
    story.answer(story.send(), "fail", "key_missing")


def raw(story):
    """Reserve, Complete, Release, Extend, Get by hand, some of them in batches: see RawStore."""
    RawStore(story).play()


SCENARIOS = ((plain, 14), (together, 3), (killed_before, 2), (killed_after, 2), (answer_lost, 2),
             (gave_up, 1), (slow_start, 1), (two_lives, 1), (forgotten, 2), (keyless, 1), (raw, 6))


class RawStore:
    """The contract's table, run operation by operation at a point within each one's time."""

    def __init__(self, story):
        self.story = story
        self.rng = story.rng
        self.policy = self.rng.choice(("take_over", "recovery"))
        self.state, self.attempt, self.token, self.request_token = "NONE", 0, None, None
        self.lease_end, self.reply = 0, None
        # Tokens that some client received, with invented ones.
        self.tokens = ["made-up"]
        self.minted = 0

    def play(self):
        steps = self.rng.randrange(4, 12)
        for _ in range(steps):
            if self.rng.random() < 0.2:
                self.story.outlive(LEASE_MS)
            self._round(self.rng.choice((1, 1, 2, 3)), self.rng.random() < 0.5)
        self._settle()

    def _round(self, size, batch):
        """Some operations at once, in one batch or of several clients."""
        begin, end = self.story.at, self.story.at + 20 * MS
        name = f"b{self.story.number}.{begin}" if batch and size > 1 else None
        requests = []
        for _ in range(size):
            low, high = (begin, end) if name else (
                self.rng.randrange(begin, begin + 8 * MS), self.rng.randrange(begin + 12 * MS, end))
            requests.append((self.rng.randrange(begin + 8 * MS, begin + 12 * MS), low, high))
        for point, low, high in sorted(requests):
            self._one(point, low, high, {"batch": name} if name else {})
        self.story.at = end + MS

    def _one(self, point, low, high, extra):
        kind = self.rng.choices(("reserve", "complete", "release", "extend"), (6, 2, 1, 1))[0]
        fields = dict(extra, policy=self.policy)
        fp = "a"
        if kind == "reserve":
            fp = "b" if self.rng.random() < 0.15 and self.attempt else "a"
            fields["recover"] = self.rng.random() < 0.3
            fields["request_token"] = self.rng.choice(
                (f"q{self.story.number}.{point}", self.request_token or f"q{point}"))
        else:
            fields["token"] = self.rng.choice((self.tokens[-1], self.rng.choice(self.tokens)))
            if kind == "complete":
                fields["reply"] = self.rng.choice(("raw1", "raw2")) + str(self.story.number)
            if kind == "release":
                fields["outcome_unknown"] = self.rng.random() < 0.3
        call = self.story.send(low, fp, kind, **fields)
        if self.rng.random() < 0.1:
            if self.rng.random() < 0.5:
                getattr(self, "_" + kind)(point, fp, fields)
            self.story.answer(call, "unknown", "none", high)
            return
        event, verdict, answer = getattr(self, "_" + kind)(point, fp, fields)
        if "token" in answer:
            self.tokens.append(answer["token"])
        self.story.answer(call, event, verdict, high, **answer)

    def _grant(self, at, fields):
        self.attempt += 1
        self.minted += 1
        self.token = f"t{self.story.number}.{self.minted}"
        self.state, self.request_token = "RESERVED", fields["request_token"]
        self.lease_end = at + LEASE_MS * MS
        return self._grant_again(at)

    def _grant_again(self, at):
        self.lease_end = max(self.lease_end, at)
        left = (self.lease_end - at) // MS
        return "ok", "reserved", {"token": self.token, "attempt": self.attempt, "lease_ms": left}

    def _reserve(self, at, fp, fields):
        same = fields["request_token"] == self.request_token
        if self.state == "NONE":
            return self._grant(at, fields)
        if fp != "a":
            return "fail", "mismatch", {}
        if self.state == "COMPLETED":
            return "ok", "replay", {"reply": self.reply}
        if self.state == "RESERVED" and same:
            return self._grant_again(at)
        if self.state == "RESERVED" and at < self.lease_end:
            return "fail", "in_flight", {}
        if self.state == "RESERVED" and self.policy == "take_over":
            return self._grant(at, fields)
        if self.state in ("RESERVED", "UNKNOWN"):
            if fields["recover"]:
                return self._grant(at, fields)
            self.state = "UNKNOWN"
            return "fail", "outcome_unknown", {}
        return ("fail", "lost", {}) if same else self._grant(at, fields)

    def _complete(self, at, fp, fields):
        mine = fields["token"] == self.token
        if mine and self.state in ("RESERVED", "UNKNOWN"):
            self.state, self.reply = "COMPLETED", fields["reply"]
            return "ok", "completed", {}
        if mine and self.state == "COMPLETED" and self.reply == fields["reply"]:
            return "ok", "completed", {}
        return "fail", "lost", {}

    def _release(self, at, fp, fields):
        wanted = "UNKNOWN" if fields["outcome_unknown"] else "RELEASED"
        if fields["token"] != self.token or self.state not in ("RESERVED", wanted):
            return "fail", "lost", {}
        self.state = wanted
        return "ok", "released", {}

    def _extend(self, at, fp, fields):
        if fields["token"] != self.token or self.state != "RESERVED":
            return "fail", "lost", {}
        self.lease_end = max(self.lease_end, at + LEASE_MS * MS)
        return "ok", "extended", {"lease_ms": LEASE_MS}

    def _settle(self):
        """The end of an orchestrator's run: waits, then settles open records."""
        self.story.outlive(LEASE_MS + 10)
        if self.state == "RESERVED":
            self._send_now("reserve", recover=True, request_token="settle")
            self._send_now("complete", token=self.token, reply=f"raw1{self.story.number}")
        self.story.probe(self.state, attempt=self.attempt, reply=self.reply)

    def _send_now(self, kind, **fields):
        at = self.story.at
        call = self.story.send(at, "a", kind, policy=self.policy, **fields)
        event, verdict, answer = getattr(self, "_" + kind)(at, "a", fields)
        self.story.answer(call, event, verdict, at + MS, **answer)
        self.story.at = at + 2 * MS


class LegalLog:
    """The whole run: stories that overlap, faults, and the end of the last fault.

    `sink(file, event)` gets each event at once, for logs that are too long to keep.
    """

    def __init__(self, seed, records, sink=None):
        self.files = {}
        self.stories = []
        self._sink = sink
        self.rng = random.Random(seed)
        self.put("orchestrator", {"event": "run", "seed": seed, "lease_ms": LEASE_MS})
        stories, weights = zip(*SCENARIOS)
        begin = 1000 * MS
        for number in range(records):
            story = Story(self, self.rng, number, begin + self.rng.randrange(5000) * MS)
            self.rng.choices(stories, weights)[0](story)
            if sink is not None:
                story.events.clear()
            if number % 200 == 199:
                begin += 100 * MS
        self._faults(begin + 20_000 * MS)
        for story in self.stories:
            if story.record[3]:
                state, attempt, reply = story.last
                story.probe(state, begin + 30_000 * MS, attempt, reply)

    def _faults(self, end):
        """Over the whole run, and over by `end`."""
        for n in range(100):
            for kind in FAULT_KINDS:
                at = self.rng.randrange(1000 * MS, end - 14_000 * MS)
                self.put("orchestrator", {"event": "fault", "kind": kind, "target": f"{kind}-{n}",
                                          "t": at, "until": at + 5 * MS})
        self.put("orchestrator", {"event": "phase", "phase": "faults_ended", "t": end})

    def put(self, file, event):
        if self._sink is not None:
            self._sink(file, event)
        else:
            self.files.setdefault(file, []).append(event)

    def write(self, folder):
        for name, events in self.files.items():
            path = pathlib.Path(folder) / f"{name}.jsonl"
            with open(path, "w", encoding="utf-8") as file:
                for event in events:
                    file.write(json.dumps(event, separators=(",", ":")) + "\n")
