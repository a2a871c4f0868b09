from ..history_test_case import END, HistoryTest
from ..legal_histories import LEASE_MS, MS


class RisingAttemptsTest(HistoryTest):

    def raw(self, first, second, later_ms=LEASE_MS + 100):
        story = self.story()
        self.granted(story, *first, at=1000 * MS)
        self.granted(story, *second, at=(1000 + later_ms) * MS)
        story.probe("RELEASED", END)

    def check(self, first, second, *broken):
        self.raw(first, second)
        counts = set(self.report().counts) - {"order"}  # It detects the same.
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
        call = story.send(retention_ms=3000)
        story.run(call)
        story.ok(call)
        self.keeps_all()

    def test_again_from_one_before_it_was_forgotten(self):
        story = self.story()
        call = story.send(retention_ms=3000)
        story.end(story.start(call), "indefinite")
        story.answer(call, "unknown", "none")
        story.outlive(2500)
        call = story.send(retention_ms=3000)
        story.run(call)
        story.ok(call)
        self.assertIn("attempts", self.report().counts)

    def test_a_late_start_of_the_first(self):
        story = self.story()
        first = story.send()
        story.outlive(LEASE_MS)
        second = story.send()
        story.run(second, 2)
        story.ok(second)
        story.end(story.start(first, 1), "lost")
        story.answer(first, "fail", "lost")
        self.keeps_all()
