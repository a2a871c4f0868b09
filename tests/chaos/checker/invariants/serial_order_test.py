from ..history_test_case import END, HistoryTest
from ..legal_histories import LEASE_MS, MS


class SerialOrderTest(HistoryTest):

    def batch(self, *operations, end=("COMPLETED", "d1", 1), policy="take_over"):
        """[(kind, fields, event, verdict, answer)], all at once."""
        story = self.story()
        at = 1000 * MS
        for kind, fields, event, verdict, answer in operations:
            fields = {"policy": policy, "batch": "b1", **fields}
            call = story.send(at, kind=kind, **fields)
            story.answer(call, event, verdict, at + MS, **answer)
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
        story.answer(story.send(kind="reserve"), "fail", "in_flight")
        self.breaks("order", "kept")

    def test_recovery(self):
        story = self.story()
        self.granted(story, policy="recovery")
        story.outlive(LEASE_MS + 100)
        story.answer(story.send(kind="reserve", policy="recovery"), "fail", "outcome_unknown")
        self.write(story, "extend", "t1", "fail", "lost")
        self.granted(story, "t2", 2, recover=True, policy="recovery")
        self.write(story, "complete", "t2", reply="d1")
        self.keeps_all()

    def test_recovery_that_was_not_requested(self):
        story = self.story()
        self.granted(story, policy="recovery")
        story.outlive(LEASE_MS + 100)
        self.granted(story, "t2", 2, policy="recovery")
        self.write(story, "complete", "t2", reply="d1")
        self.breaks("order")
