"""The events of one record. Times are nanoseconds of CLOCK_MONOTONIC; a line is (file,
number)."""

NEVER = 1 << 62


class Operation:
    """A client's request, and its answer. Without a definite answer `settled_at` is NEVER."""

    __slots__ = ("id", "client", "kind", "server", "fp", "batch", "token", "request_token",
                 "sent_reply",
                 "policy", "recover", "outcome_unknown", "retention", "sent_at", "settled_at", "answered",
                 "event", "verdict", "code", "reply", "attempt", "lease", "seen", "record_id", "content",
                 "lines")

    def __init__(self, event, line):
        get = event.get
        self.id = event["id"]
        self.client = event["client"]
        self.kind = event.get("kind", "call")
        # The called guarded server, if the client logs it.
        self.server = get("server")
        self.fp = get("fp")
        self.batch = get("batch")
        self.token = get("token")
        self.request_token = get("request_token")
        self.sent_reply = get("reply")
        self.policy = get("policy", "take_over")
        self.recover = get("recover", False)
        self.outcome_unknown = get("outcome_unknown", False)
        self.retention = get("retention_ms")
        self.sent_at = event["t"]
        self.settled_at = self.answered = NEVER
        self.event = "unknown"
        self.verdict = "none"
        self.code = self.reply = self.attempt = self.lease = self.seen = self.record_id = None
        self.content = "full"
        self.lines = (line,)

    def answer(self, event, line):
        get = event.get
        self.event = event["event"]
        self.answered = event["t"]
        self.verdict = get("verdict", "none")
        # An abandoned operation, or one that the service has not received, may still act at any
        # later time.
        if self.event != "unknown" and self.verdict != "unavailable":
            self.settled_at = event["t"]
        self.code = get("code", "OK")
        self.reply = get("reply")
        self.attempt = get("attempt")
        self.lease = get("lease_ms")
        self.seen = get("seen")
        self.record_id = get("record_id")
        self.content = get("content", "full")
        if self.kind == "reserve" and "token" in event:
            self.token = event["token"]
        self.lines = (self.lines[0], line)

    @property
    def ok(self):
        return self.event == "ok"

    @property
    def granted(self):
        """The store gave this operation a reservation, and the operation received it."""
        return self.kind == "reserve" and self.event == "ok" and self.verdict == "reserved"

    @property
    def completes(self):
        """The operation's answer proves that the record is completed."""
        if self.event != "ok":
            return False
        return (self.kind in ("call", "complete")
                or self.kind == "reserve" and self.verdict == "replay")

    @property
    def final_reply(self):
        """The digest of the completed reply that the answer proves, if it is known."""
        if not self.completes or self.content != "full":
            return None
        return self.sent_reply if self.kind == "complete" else self.reply


class Execution:
    """One run of a handler. A process that was killed leaves `ended` NEVER."""

    __slots__ = ("id", "call", "server", "attempt", "token", "fp", "ledger", "lease", "started",
                 "ended", "outcome", "reply", "record_id", "lines")

    def __init__(self, event, line):
        get = event.get
        self.id = event["id"]
        self.call = event["call"]
        self.server = event["server"]
        self.attempt = event["attempt"]
        self.token = get("token")
        self.fp = get("fp")
        self.ledger = event["ledger"]
        self.lease = get("lease_ms")
        self.record_id = get("record_id")
        self.started = event["t"]
        self.ended = NEVER
        self.outcome = None
        self.reply = None
        self.lines = (line,)

    def end(self, event, line):
        self.ended = event["t"]
        self.outcome = event["outcome"]
        self.reply = event.get("reply")
        self.lines = (self.lines[0], line)


class Effect:
    """The effect of a handler, as kept outside the system under test."""

    __slots__ = ("attempt", "server", "ledger", "reply", "at", "lines")

    def __init__(self, event, line):
        self.attempt = event["attempt"]
        self.server = event["server"]
        self.ledger = event["ledger"]
        self.reply = event.get("reply")
        self.at = event["t"]
        self.lines = (line,)


class Probe:
    """The answer of `Get` about the record, with request and answer like an operation."""

    __slots__ = ("sent_at", "settled_at", "state", "attempt", "reply", "record_id", "whole", "lapsed",
                 "content", "seen", "lines")

    def __init__(self, event, line):
        get = event.get
        self.sent_at = event["from"]
        self.settled_at = event["t"]
        self.state = event["state"]
        self.attempt = get("attempt")
        self.reply = get("reply")
        self.record_id = get("record_id")
        self.whole = get("whole", True)
        self.lapsed = get("lapsed", False)
        self.content = get("content", "full")
        self.seen = get("seen")
        self.lines = (line,)


class Fault:
    """An action of a nemesis, from `began` to `ended` (the same for a kill)."""

    __slots__ = ("kind", "target", "began", "ended", "servers", "store_shift", "served", "settled",
                 "line")

    def __init__(self, event, line):
        self.kind = event["kind"]
        self.target = event["target"]
        self.began = event["t"]
        self.ended = event.get("until", event["t"])
        # The guarded servers with calls that it can reach; None: all.
        self.servers = event.get("servers")
        # Its shift of the store's clock at its beginning, which its end takes back.
        self.store_shift = abs(event.get("store_shift_ms", 0)) * 1_000_000
        # The share of calls that have to be served while it lasts; None: no requirement.
        self.served = event.get("served")
        # The start of that requirement, since its beginning, in ns.
        self.settled = event.get("settled_ms", 1000) * 1_000_000
        self.line = line
