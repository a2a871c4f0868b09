"""For every promise a history that breaks it, and one next to it that does not."""

import tempfile
import unittest

from .checker import check
from .coverage import Thresholds
from .legal_histories import LEASE_MS, MS, LegalLog, Story
from .record_id import record_id

ANYTHING = Thresholds(per_verdict=0, ok_share=0, per_fault_phase=0)
END = 30_000 * MS


class HistoryTest(unittest.TestCase):
    """One run of a few stories; the last fault ends at 21 s, keys have to settle until 33 s."""

    def setUp(self):
        self.log = LegalLog(1, 0)
        self.stories = 0

    def story(self, ledger=False):
        self.stories += 1
        return Story(self.log, self.log.rng, self.stories, 1000 * MS, ledger)

    def completed(self, ledger=False):
        story = self.story(ledger)
        call = story.ask()
        story.run(call)
        story.ok(call)
        return story

    def granted(self, story, token="t1", attempt=1, at=None, fp="a", lease_ms=LEASE_MS, **fields):
        call = story.ask(at, fp, "reserve", **fields)
        story.tell(call, "ok", "reserved", None if at is None else at + MS, token=token,
                   attempt=attempt, lease_ms=lease_ms)

    def write(self, story, kind, token, event="ok", verdict="completed", **fields):
        story.tell(story.ask(kind=kind, token=token, **fields), event, verdict)

    def report(self):
        with tempfile.TemporaryDirectory(prefix="chaos-checker-test.") as folder:
            self.log.write(folder)
            return check(folder, ANYTHING)

    def breaks(self, *invariants):
        report = self.report()
        self.assertEqual(set(report.counts), set(invariants), report.text())
        for violation in report.violations:
            self.assertTrue(violation["lines"])

    def keeps_all(self):
        report = self.report()
        self.assertTrue(report.passed, report.text())


class Effects(HistoryTest):

    def taken_over(self, gap_ms, outcome=None):
        story = self.story()
        first, second = story.ask(1000 * MS), story.ask(1000 * MS)
        one = story.start(first, 1, 1001 * MS)
        story.effect(one, 1002 * MS)
        if outcome:
            story.end(one, outcome, 1003 * MS)
        two = story.start(second, 2, (1000 + gap_ms) * MS)
        story.effect(two, (1001 + gap_ms) * MS)
        story.end(two, "ok", (1002 + gap_ms) * MS)
        story.ok(second, at=(1003 + gap_ms) * MS)

    def test_twice_in_one_attempt(self):
        story = self.story()
        call = story.ask()
        execution = story.start(call)
        story.effect(execution)
        story.effect(execution)
        story.end(execution)
        story.ok(call)
        self.breaks("effects")

    def test_twice_before_the_lease_was_over(self):
        self.taken_over(LEASE_MS - 100)
        self.breaks("effects", "leases")

    def test_twice_after_the_lease_was_over(self):
        self.taken_over(LEASE_MS)
        self.keeps_all()

    def test_twice_though_the_first_said_ok(self):
        self.taken_over(100, "ok")
        self.breaks("effects")

    def test_twice_since_the_first_gave_up(self):
        self.taken_over(100, "indefinite")
        self.keeps_all()

    def test_more_than_attempts(self):
        story = self.completed()
        story.effect(("", "server9", 2))
        self.breaks("effects")

    def test_ok_and_none(self):
        story = self.story()
        call = story.ask()
        story.end(story.start(call))
        story.ok(call)
        self.breaks("effects")

    def test_none_and_not_ok(self):
        story = self.story()
        call = story.ask()
        story.end(story.start(call), "refused", reply=story.reply)
        story.tell(call, "ok", "reserved", code="NOT_FOUND", reply=None)
        self.keeps_all()

    def test_the_store_clock_jumped_over_the_lease(self):
        self.log.put("orchestrator", {"event": "fault", "kind": "clock", "target": "postgres",
                                      "t": 1500 * MS, "until": 9000 * MS, "store_shift_ms": 1500})
        self.taken_over(LEASE_MS - 1000)
        self.keeps_all()

    def test_the_store_clock_jumped_less_than_that(self):
        self.log.put("orchestrator", {"event": "fault", "kind": "clock", "target": "postgres",
                                      "t": 1500 * MS, "until": 9000 * MS, "store_shift_ms": 500})
        self.taken_over(LEASE_MS - 1000)
        self.breaks("effects", "leases")


class Attempts(HistoryTest):

    def raw(self, first, second, later_ms=LEASE_MS + 100):
        story = self.story()
        self.granted(story, *first, at=1000 * MS)
        self.granted(story, *second, at=(1000 + later_ms) * MS)
        story.probe("RELEASED", END)

    def check(self, first, second, *broken):
        self.raw(first, second)
        counts = set(self.report().counts) - {"order"}  # Which sees the same in its own way.
        self.assertEqual(counts, set(broken))

    def test_the_same_twice(self):
        self.check(("t1", 1), ("t2", 1), "attempts")

    def test_falling(self):
        self.check(("t1", 3), ("t2", 2), "attempts")

    def test_one_token_for_two(self):
        self.check(("t1", 1), ("t1", 2), "attempts")

    def test_rising(self):
        self.check(("t1", 1), ("t2", 2))

    def test_the_same_grant_again(self):
        self.check(("t1", 1), ("t1", 1))

    def test_from_zero(self):
        self.check(("t1", 0), ("t2", 1), "attempts")

    def test_again_from_one_when_it_was_forgotten(self):
        story = self.completed()
        for _, event in story.events:
            if event["event"] == "invoke":
                event["retention_ms"] = 3000
        story.outlive(3200)
        call = story.ask(retention_ms=3000)
        story.run(call)
        story.ok(call)
        self.keeps_all()

    def test_again_from_one_before_it_was_forgotten(self):
        story = self.story()
        call = story.ask(retention_ms=3000)
        story.end(story.start(call), "indefinite")
        story.tell(call, "unknown", "none")
        story.outlive(2500)
        call = story.ask(retention_ms=3000)
        story.run(call)
        story.ok(call)
        self.assertIn("attempts", self.report().counts)

    def test_a_late_start_of_the_first(self):
        story = self.story()
        first = story.ask()
        story.outlive(LEASE_MS)
        second = story.ask()
        story.run(second, 2)
        story.ok(second)
        story.end(story.start(first, 1), "lost")
        story.tell(first, "fail", "lost")
        self.keeps_all()


class Ledger(HistoryTest):

    def killed(self, effects, answer=True):
        story = self.story(ledger=True)
        first = story.ask()
        execution = story.start(first)
        if effects > 0:
            story.effect(execution)
        story.tell(first, "unknown", "none")
        story.outlive(LEASE_MS)
        second = story.ask()
        execution = story.start(second, 2)
        if effects > 1:
            story.effect(execution)
        story.end(execution)
        if answer:
            story.ok(second)
        story.probe("COMPLETED" if answer else "RELEASED", END, 2)
        return story

    def test_two(self):
        self.killed(2)
        self.breaks("ledger")

    def test_one(self):
        self.killed(1)
        self.keeps_all()

    def test_none_and_completed(self):
        self.killed(0)
        self.breaks("ledger", "effects")

    def test_none_and_not_completed(self):
        self.killed(0, answer=False)
        self.keeps_all()

    def test_two_without_the_ledger(self):
        for _, event in self.killed(2).events:
            if "ledger" in event:
                event["ledger"] = False
        self.keeps_all()

    def test_another_reply_than_the_committed(self):
        story = self.story(ledger=True)
        call = story.ask()
        execution = story.start(call)
        story.effect(execution, reply="committed")
        story.end(execution)
        story.ok(call)
        story.probe(at=END)
        self.breaks("ledger", "whole")


class Replies(HistoryTest):

    def test_two(self):
        story = self.completed()
        story.put("effects", "probe", END, **{"from": END}, record=story.record, state="COMPLETED",
                  reply=story.reply)
        call = story.ask()
        story.end(story.start(call, 1), reply="other")
        story.ok(call, "replay", reply="other")
        self.assertIn("reply", self.report().counts)

    def test_of_nobody(self):
        story = self.completed()
        story.ok(story.ask(), "replay", reply="other")
        self.breaks("reply")

    def test_the_same(self):
        story = self.completed()
        story.ok(story.ask(), "replay")
        self.keeps_all()

    def test_part_of_it_that_says_so(self):
        story = self.completed()
        story.tell(story.ask(), "ok", "replay", reply="part", content="partial")
        self.keeps_all()

    def test_raw(self):
        for second, broken in (("d1", ()), ("d2", ("order", "reply"))):
            with self.subTest(second):
                self.setUp()
                story = self.story()
                self.granted(story)
                self.write(story, "complete", "t1", reply="d1")
                story.tell(story.ask(kind="reserve"), "ok", "replay", reply=second)
                self.breaks(*broken) if broken else self.keeps_all()


class Kept(HistoryTest):

    def test_ran_again(self):
        story = self.completed(ledger=True)
        call = story.ask()
        execution = story.start(call, 2)
        story.end(execution, "lost")
        story.tell(call, "fail", "lost")
        self.breaks("kept")

    def test_ran_again_in_the_name_of_an_earlier_call(self):
        story = self.story(ledger=True)
        early = story.ask()
        call = story.ask()
        story.run(call)
        story.ok(call)
        execution = story.start(early, 2)
        story.end(execution, "lost")
        story.tell(early, "fail", "lost")
        self.keeps_all()

    def test_answers_that_forgot(self):
        for verdict in ("in_flight", "outcome_unknown", "expired"):
            with self.subTest(verdict):
                self.setUp()
                story = self.completed()
                story.tell(story.ask(), "fail", verdict)
                self.breaks("kept")

    def test_an_answer_to_what_was_asked_before(self):
        story = self.story()
        early, call = story.ask(), story.ask()
        story.run(call)
        story.ok(call)
        story.tell(early, "fail", "in_flight")
        self.keeps_all()

    def test_a_probe_that_forgot(self):
        story = self.completed()
        story.probe("RESERVED", END)
        self.breaks("kept")

    def acknowledged_by_a_probe(self, at=None):
        story = self.story()
        call = story.ask()
        story.run(call)
        story.tell(call, "unknown", "none")
        story.probe("COMPLETED", at)
        story.probe("RESERVED", END + 10 * MS)
        story.probe("COMPLETED", END + 20 * MS)

    def test_a_probe_of_what_may_be_taken_back(self):
        self.acknowledged_by_a_probe()
        self.keeps_all()

    def test_a_probe_of_what_nothing_takes_back(self):
        self.acknowledged_by_a_probe(END)
        self.breaks("kept")

    def test_a_probe_after_its_retention(self):
        story = self.story()
        call = story.ask(retention_ms=5000)
        story.run(call)
        story.ok(call)
        story.probe("NONE", END)
        self.keeps_all()

    def test_unknown_is_no_acknowledgement(self):
        story = self.story()
        call = story.ask()
        story.run(call)
        story.tell(call, "unknown", "none")
        story.tell(story.ask(), "fail", "in_flight")
        story.probe("COMPLETED", END)
        self.keeps_all()


class Fingerprints(HistoryTest):

    def test_a_replay_for_another(self):
        story = self.completed()
        story.ok(story.ask(fp="b"), "replay")
        self.breaks("fingerprint")

    def test_a_grant_for_another(self):
        story = self.story()
        self.granted(story)
        story.outlive(LEASE_MS)
        self.granted(story, "t2", 2, fp="b")
        story.probe("RELEASED", END)
        self.assertIn("fingerprint", self.report().counts)

    def test_a_refusal_for_another(self):
        story = self.completed()
        story.tell(story.ask(fp="b"), "fail", "mismatch")
        self.keeps_all()

    def test_a_refusal_for_the_same(self):
        story = self.completed()
        story.tell(story.ask(), "fail", "mismatch")
        self.breaks("fingerprint")

    def test_the_handler_got_another(self):
        story = self.story()
        call = story.ask()
        execution = story.start(call, fp="b")
        story.effect(execution)
        story.end(execution)
        story.tell(call, "unknown", "none")
        story.probe(at=END)
        self.breaks("fingerprint")


class Stale(HistoryTest):

    def taken_over(self):
        story = self.story()
        self.granted(story, at=1000 * MS)
        self.granted(story, "t2", 2, at=(1100 + LEASE_MS) * MS)
        story.outlive(2 * LEASE_MS)
        return story

    def test_accepted(self):
        for kind, verdict in (("complete", "completed"), ("release", "released"),
                              ("extend", "extended")):
            with self.subTest(kind):
                self.setUp()
                story = self.taken_over()
                self.write(story, kind, "t1", verdict=verdict, reply="d1")
                self.write(story, "release", "t2", "fail", "lost")
                story.probe("COMPLETED" if kind == "complete" else "RELEASED", END, reply="d1")
                counts = self.report().counts
                self.assertIn("stale", counts)
                self.assertIn("order", counts)

    def test_refused(self):
        story = self.taken_over()
        for kind in ("complete", "release", "extend"):
            self.write(story, kind, "t1", "fail", "lost", reply="d1")
        self.write(story, "complete", "t2", reply="d2")
        self.keeps_all()

    def test_accepted_before_another_took_over(self):
        story = self.story()
        self.granted(story)
        self.write(story, "release", "t1", verdict="released")
        self.granted(story, "t2", 2)
        self.write(story, "complete", "t2", reply="d2")
        self.keeps_all()

    def test_never_given(self):
        story = self.taken_over()
        self.write(story, "complete", "made-up", reply="d1")
        self.breaks("stale", "order")

    def test_a_refused_reply_is_stored(self):
        story = self.taken_over()
        self.write(story, "complete", "t1", "fail", "lost", reply="d1")
        self.write(story, "complete", "t2", "unknown", "none", reply="d2")
        story.probe("COMPLETED", END, 2, "d1")
        self.breaks("stale", "order")


class Leases(HistoryTest):

    def check(self, later_ms, *broken):
        story = self.story()
        self.granted(story, at=1000 * MS)
        self.granted(story, "t2", 2, at=(1000 + later_ms) * MS)
        story.probe("RELEASED", END)
        self.assertEqual(set(self.report().counts) - {"order"}, set(broken))

    def test_two_live(self):
        self.check(LEASE_MS - 100, "leases")

    def test_one_over(self):
        self.check(LEASE_MS)

    def extended(self, later_ms, event):
        story = self.story()
        self.granted(story, at=1000 * MS)
        story.tell(story.ask(2000 * MS, kind="extend", token="t1"), event, "extended", 2001 * MS,
                   lease_ms=LEASE_MS)
        story.at = (1000 + later_ms) * MS
        self.granted(story, "t2", 2, story.at)
        story.outlive(10)
        self.write(story, "complete", "t2", reply="d")

    def test_extended(self):
        self.extended(LEASE_MS + 500, "ok")
        self.breaks("leases")

    def test_perhaps_extended(self):
        self.extended(LEASE_MS + 500, "unknown")
        self.keeps_all()

    def test_released(self):
        story = self.story()
        self.granted(story)
        self.write(story, "release", "t1", "unknown", "none")
        self.granted(story, "t2", 2)
        self.write(story, "complete", "t2", reply="d")
        self.keeps_all()

    def handlers(self, ended):
        story = self.story(ledger=True)
        first, second = story.ask(), story.ask()
        one = story.start(first)
        if ended:
            story.end(one, "nothing_happened")
        story.tell(first, "unknown", "none")
        story.run(second, 2)
        story.ok(second)

    def test_two_handlers(self):
        self.handlers(ended=False)
        self.breaks("leases")

    def test_one_handler_after_the_other(self):
        self.handlers(ended=True)
        self.keeps_all()


class Whole(HistoryTest):

    def unknown(self, state, reply="d1", **fields):
        story = self.story()
        self.granted(story)
        self.write(story, "complete", "t1", "unknown", "none", reply="d1")
        story.probe(state, END, reply=reply)
        event = self.log.files["probes"][-1]
        event.update(fields)
        return event

    def test_applied(self):
        self.unknown("COMPLETED")
        self.keeps_all()

    def test_not_applied(self):
        self.unknown("RESERVED")
        self.breaks("liveness")  # That is all: nobody ended it.

    def test_half_without_reply(self):
        del self.unknown("COMPLETED")["reply"]
        self.breaks("whole", "order")

    def test_half_with_another_reply(self):
        self.unknown("COMPLETED", reply="d2")
        self.breaks("whole", "order")

    def test_half_with_parts_missing(self):
        self.unknown("COMPLETED", whole=False)
        self.breaks("whole")

    def test_out_of_thin_air(self):
        story = self.story()
        story.probe("RELEASED", END)
        self.assertIn("whole", self.report().counts)


class Order(HistoryTest):

    def batch(self, *operations, end=("COMPLETED", "d1", 1), policy="take_over"):
        """[(kind, fields, event, verdict, answer)], all at once."""
        story = self.story()
        at = 1000 * MS
        for kind, fields, event, verdict, answer in operations:
            fields = {"policy": policy, "batch": "b1", **fields}
            call = story.ask(at, kind=kind, **fields)
            story.tell(call, event, verdict, at + MS, **answer)
        if end:
            story.probe(end[0], END, end[2], end[1])

    GRANT = ("reserve", {}, "ok", "reserved", {"token": "t1", "attempt": 1, "lease_ms": LEASE_MS})
    BUSY = ("reserve", {}, "fail", "in_flight", {})
    DONE = ("complete", {"token": "t1", "reply": "d1"}, "ok", "completed", {})
    LOST = ("complete", {"token": "t1", "reply": "d1"}, "fail", "lost", {})
    SEEN = ("reserve", {}, "ok", "replay", {"reply": "d1"})
    FREE = ("release", {"token": "t1"}, "ok", "released", {})

    def test_turned_away(self):
        busy = ("complete", {"token": "t1", "reply": "d1"}, "fail", "overloaded", {})
        self.batch(self.GRANT, busy, self.DONE)
        self.keeps_all()

    def test_some_order(self):
        self.batch(self.SEEN, self.DONE, self.BUSY, self.GRANT)
        self.keeps_all()

    def test_released_and_completed(self):
        self.batch(self.GRANT, self.DONE, self.FREE)
        self.breaks("order")

    def test_released_and_not_completed(self):
        self.batch(self.GRANT, self.LOST, self.FREE, end=("RELEASED", None, 1))
        self.keeps_all()

    def test_released_again(self):
        self.batch(self.GRANT, self.FREE, self.FREE, end=("RELEASED", None, 1))
        self.keeps_all()

    def test_released_again_and_refused(self):
        story = self.story()
        self.granted(story)
        self.write(story, "release", "t1", verdict="released")
        self.write(story, "release", "t1", "fail", "lost")
        story.probe("RELEASED", END)
        self.breaks("order")

    def test_refused_for_nothing(self):
        self.batch(self.BUSY, self.FREE, end=None)
        self.assertIn("order", self.report().counts)

    def test_two_grants_without_a_lapse(self):
        second = ("reserve", {}, "ok", "reserved", {"token": "t2", "attempt": 2, "lease_ms": 1})
        self.batch(self.GRANT, second, end=("RELEASED", None, 2), policy="recovery")
        counts = self.report().counts
        self.assertIn("order", counts)
        self.assertIn("leases", counts)

    def test_an_unknown_one_was_applied(self):
        unknown = ("complete", {"token": "t1", "reply": "d1"}, "unknown", "none", {})
        self.batch(self.GRANT, unknown, self.SEEN)
        self.keeps_all()

    def test_an_unknown_one_was_not_applied(self):
        unknown = ("complete", {"token": "t1", "reply": "d1"}, "unknown", "none", {})
        self.batch(self.GRANT, unknown, self.FREE, end=("RELEASED", None, 1))
        self.keeps_all()

    def test_an_unknown_grant_is_found_again(self):
        lost = ("reserve", {"request_token": "q"}, "unknown", "none", {})
        found = ("reserve", {"request_token": "q"}, *self.GRANT[2:])
        self.batch(lost, self.BUSY, found, self.DONE)
        self.keeps_all()

    def test_real_time_counts(self):
        story = self.story()
        self.granted(story)
        self.write(story, "complete", "t1", reply="d1")
        story.tell(story.ask(kind="reserve"), "fail", "in_flight")
        self.breaks("order", "kept")

    def test_recovery(self):
        story = self.story()
        self.granted(story, policy="recovery")
        story.outlive(LEASE_MS + 100)
        story.tell(story.ask(kind="reserve", policy="recovery"), "fail", "outcome_unknown")
        self.write(story, "extend", "t1", "fail", "lost")
        self.granted(story, "t2", 2, recover=True, policy="recovery")
        self.write(story, "complete", "t2", reply="d1")
        self.keeps_all()

    def test_recovery_that_nobody_asked_for(self):
        story = self.story()
        self.granted(story, policy="recovery")
        story.outlive(LEASE_MS + 100)
        self.granted(story, "t2", 2, policy="recovery")
        self.write(story, "complete", "t2", reply="d1")
        self.breaks("order")


class Scopes(HistoryTest):

    def test_seen_from_another(self):
        story = self.completed()
        story.tell(story.ask(), "ok", "replay", reply=story.reply,
                   seen=[story.record[0], "somebody", *story.record[2:]])
        self.breaks("scope")

    def test_another_record_id(self):
        story, other = self.completed(), self.story()
        identity = record_id(*story.record)
        call = other.ask()
        other.run(call)
        other.tell(call, "ok", "reserved", reply=other.reply, record_id=identity)
        self.breaks("scope")

    def test_a_handler_for_another(self):
        story, other = self.story(), self.story()
        call = story.ask()
        execution = other.start(call)
        other.end(execution, "lost")
        story.tell(call, "fail", "lost")
        for one in (story, other):
            one.probe("RELEASED", END)
        self.breaks("scope", "whole")

    def test_the_same_key_in_two_scopes(self):
        first = self.completed()
        second = self.story()
        second.record = [first.record[0], "somebody", *first.record[2:]]
        call = second.ask()
        second.run(call)
        second.ok(call)
        self.keeps_all()


class Keys(HistoryTest):

    def keyless(self):
        story = self.story()
        story.record = [*story.record[:3], ""]
        return story

    def test_a_handler_ran(self):
        story = self.keyless()
        call = story.ask()
        story.end(story.start(call), "refused", reply="r")
        story.tell(call, "unknown", "none")
        self.breaks("key")

    def test_answered(self):
        story = self.keyless()
        story.tell(story.ask(), "ok", "reserved", reply=None)
        self.breaks("key")

    def test_refused(self):
        story = self.keyless()
        story.tell(story.ask(), "fail", "key_missing")
        self.keeps_all()


class Settled(HistoryTest):

    def test_completed_long_ago(self):
        self.completed()
        self.keeps_all()

    def test_never_answered(self):
        story = self.story()
        story.tell(story.ask(), "unknown", "none")
        self.breaks("liveness")

    def test_still_in_flight(self):
        story = self.story()
        story.tell(story.ask(), "unknown", "none")
        story.tell(story.ask(END), "fail", "in_flight", END + MS)
        self.breaks("liveness")

    def test_over_for_good(self):
        for verdict in ("outcome_unknown", "expired"):
            with self.subTest(verdict):
                self.setUp()
                story = self.story()
                story.tell(story.ask(), "unknown", "none")
                story.tell(story.ask(), "fail", verdict)
                self.keeps_all()

    def reserved_when_looked_at(self, **fields):
        story = self.story()
        story.tell(story.ask(), "fail", "outcome_unknown")
        story.put("probes", "probe", END, **{"from": END - MS}, record=story.record,
                  state="RESERVED", attempt=2, **fields)

    def test_lapsed_when_looked_at(self):
        self.reserved_when_looked_at(lapsed=True)
        self.keeps_all()

    def test_held_when_looked_at(self):
        self.reserved_when_looked_at(lapsed=False)
        self.breaks("liveness")

    def test_over_and_then_open(self):
        story = self.story()
        story.tell(story.ask(), "fail", "outcome_unknown")
        story.tell(story.ask(), "unknown", "none")
        self.breaks("liveness")

    def looked_at_late(self, asked, state):
        story = self.story()
        story.tell(story.ask(), "fail", "outcome_unknown")
        story.tell(story.ask(asked), "fail", "in_flight")
        story.put("probes", "probe", 60_000 * MS, **{"from": 59_999 * MS}, record=story.record,
                  state=state, attempt=2)

    def test_at_rest_when_looked_at_late(self):
        self.looked_at_late(None, "UNKNOWN")
        self.keeps_all()

    def test_held_when_looked_at_late(self):
        self.looked_at_late(None, "RESERVED")
        self.breaks("liveness")

    def test_asked_for_before_it_was_looked_at_late(self):
        self.looked_at_late(22_000 * MS, "UNKNOWN")
        self.breaks("liveness")

    def late(self, at):
        story = self.story()
        story.tell(story.ask(), "unknown", "none")
        story.at = at
        call = story.ask()
        story.run(call)
        story.ok(call, at=at + 100 * MS)

    def test_settled_in_time(self):
        self.late(32_500 * MS)
        self.keeps_all()

    def test_settled_too_late(self):
        self.late(33_500 * MS)
        self.breaks("liveness")

    def test_not_answered_after_all(self):
        story = self.completed()
        story.tell(story.ask(34_000 * MS), "unknown", "none", 36_000 * MS)
        self.breaks("liveness")


if __name__ == "__main__":
    unittest.main()
