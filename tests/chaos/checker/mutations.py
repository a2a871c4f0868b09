"""Plants each violation into a legal log: the checker must never accept it."""

from .legal_histories import MS


def _of(story, *kinds):
    return [event for _, event in story.events if event["event"] in kinds]


def _raw(story):
    return any(event.get("kind", "call") != "call" for event in _of(story, "invoke"))


def effect_twice(story):
    effects = [event for event in _of(story, "effect") if not event["ledger"]]
    if not effects:
        return False
    again = {field: value for field, value in effects[0].items() if field not in ("event", "t")}
    story.put("effects", "effect", effects[0]["t"] + MS, **again)
    return True


def attempt_twice(story):
    starts = _of(story, "start")
    if len(starts) != 2 or starts[0]["attempt"] == starts[1]["attempt"]:
        return False
    for event in _of(story, "start", "effect"):
        event["attempt"] = 1
    return True


def ledger_effect_twice(story):
    effects = [event for event in _of(story, "effect") if event["ledger"]]
    if not effects:
        return False
    again = {field: value for field, value in effects[0].items() if field not in ("event", "t")}
    story.put("effects", "effect", effects[0]["t"] + MS, **again)
    return True


def other_reply(story):
    replays = [event for event in _of(story, "ok") if event["verdict"] == "replay"]
    if not replays:
        return False
    replays[-1]["reply"] += "x"
    return True


def forgotten(story):
    if _raw(story) or not _of(story, "start") or not _of(story, "ok"):
        return False
    if any("retention_ms" in event for event in _of(story, "invoke")):
        return False  # By then it may be.
    _of(story, "probe")[-1]["state"] = "RELEASED"
    return True


def replay_for_another(story):
    mismatches = [event for event in _of(story, "fail") if event["verdict"] == "mismatch"]
    if not mismatches or _raw(story):
        return False
    mismatches[0].update(event="ok", verdict="replay", code="OK", reply=story.reply)
    return True


def made_up_token(story):
    made_up = {event["id"] for event in _of(story, "invoke") if event.get("token") == "made-up"}
    for event in _of(story, "fail"):
        if event["id"] in made_up:
            event["event"] = "ok"
            return True
    return False


def lease_still_live(story):
    starts = sorted(_of(story, "start"), key=lambda event: event["t"])
    ended = {event["id"] for event in _of(story, "end")}
    if len(starts) != 2 or starts[0]["id"] in ended or starts[0]["attempt"] > starts[1]["attempt"]:
        return False
    starts[0]["lease_ms"] = 60_000
    return True


def half_completed(story):
    probe = _of(story, "probe")[-1]
    return probe["state"] == "COMPLETED" and probe.pop("reply") is not None


def attempt_from_nowhere(story):
    probe = _of(story, "probe")[-1]
    if not _raw(story) or probe["state"] == "NONE":
        return False
    probe["attempt"] += 1
    return True


def seen_by_another(story):
    answers = [event for event in _of(story, "ok") if "seen" in event]
    if not answers:
        return False
    scope = story.record[1] + "x"
    answers[-1]["seen"] = [story.record[0], scope, *story.record[2:]]
    return True


def ran_without_key(story):
    if story.record[3]:
        return False
    story.start((_of(story, "invoke")[0]["id"], "client0"))
    return True


def refused_for_another(story):
    if not story.record[3]:
        return False
    last = _of(story, "probe")[-1]["t"]
    story.answer(story.send(last + MS), "fail", "invalid", last + 2 * MS)
    return True


def never_settled(story):
    if not story.record[3]:
        return False
    late = _of(story, "probe")[-1]["t"] + 10_000 * MS
    story.answer(story.send(late), "unknown", "none", late + MS)
    return True


# The promise that each breaks; it may break more.
MUTATIONS = {
    effect_twice: "effects",
    attempt_twice: "attempts",
    ledger_effect_twice: "ledger",
    other_reply: "reply",
    forgotten: "kept",
    replay_for_another: "fingerprint",
    made_up_token: "stale",
    lease_still_live: "leases",
    half_completed: "whole",
    attempt_from_nowhere: "order",
    seen_by_another: "scope",
    ran_without_key: "key",
    refused_for_another: "innocence",
    never_settled: "liveness",
}
