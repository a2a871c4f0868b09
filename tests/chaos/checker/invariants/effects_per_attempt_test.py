from ..history_test_case import HistoryTest
from ..legal_histories import LEASE_MS, MS


class EffectsPerAttemptTest(HistoryTest):

    def taken_over(self, gap_ms, outcome=None):
        story = self.story()
        first, second = story.send(1000 * MS), story.send(1000 * MS)
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
        call = story.send()
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

    def test_twice_though_the_first_returned_ok(self):
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
        call = story.send()
        story.end(story.start(call))
        story.ok(call)
        self.breaks("effects")

    def test_none_and_not_ok(self):
        story = self.story()
        call = story.send()
        story.end(story.start(call), "refused", reply=story.reply)
        story.answer(call, "ok", "reserved", code="NOT_FOUND", reply=None)
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
