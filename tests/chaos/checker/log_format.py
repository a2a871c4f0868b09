"""The lines of a log: the fields of each event. tests/chaos/README.md describes their
meaning."""

import json

_INT, _TEXT, _BOOL, _RECORD = int, str, bool, list

REQUIRED = {
    "run": {"seed": _INT},
    "invoke": {"t": _INT, "id": _TEXT, "client": _TEXT, "record": _RECORD},
    "ok": {"t": _INT, "id": _TEXT, "verdict": _TEXT},
    "fail": {"t": _INT, "id": _TEXT, "verdict": _TEXT},
    "unknown": {"t": _INT, "id": _TEXT},
    "start": {"t": _INT, "id": _TEXT, "call": _TEXT, "record": _RECORD, "attempt": _INT,
              "server": _TEXT, "ledger": _BOOL},
    "end": {"t": _INT, "id": _TEXT, "outcome": _TEXT},
    "effect": {"t": _INT, "record": _RECORD, "attempt": _INT, "server": _TEXT, "ledger": _BOOL},
    "probe": {"t": _INT, "from": _INT, "record": _RECORD, "state": _TEXT},
    "fault": {"t": _INT, "kind": _TEXT, "target": _TEXT},
    "phase": {"t": _INT, "phase": _TEXT},
}
ANSWERS = frozenset(("ok", "fail", "unknown"))
CHOICES = {
    "kind": frozenset(("call", "reserve", "complete", "release", "extend")),
    "outcome": frozenset(("ok", "refused", "indefinite", "no_effect", "lost")),
    "state": frozenset(("NONE", "RESERVED", "COMPLETED", "RELEASED", "UNKNOWN")),
    "policy": frozenset(("take_over", "recovery")),
    "content": frozenset(("full", "partial")),
}
_WITH_CHOICE = {"invoke": ("kind", "policy"), "ok": ("content",), "end": ("outcome",),
                "probe": ("state", "content")}


class MalformedLine(Exception):
    """A line that is not of the format; its message has the fault."""


def parse(text):
    """The event of a line. Raises MalformedLine."""
    try:
        event = json.loads(text)
        required = REQUIRED[event["event"]]
    except (ValueError, KeyError, TypeError):
        raise MalformedLine("is no event of the format") from None
    for field, kind in required.items():
        if type(event.get(field)) is not kind:
            raise MalformedLine(f"{event['event']} without a valid {field}")
    if "record" in required:
        record = event["record"]
        if len(record) != 4 or not all(type(part) is str for part in record):
            raise MalformedLine("a record is [namespace, scope, operation, key]")
    for field in _WITH_CHOICE.get(event["event"], ()):
        if field in event and event[field] not in CHOICES[field]:
            raise MalformedLine(f"{field} cannot be {event[field]!r}")
    return event
