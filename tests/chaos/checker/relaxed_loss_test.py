"""What a crash of the store may do to the history of a relaxed reservation, and what not."""

from .history_test_case import HistoryTest
from .legal_histories import LEASE_MS, MS


class RelaxedLossTest(HistoryTest):

    def lost(self, second_reply=None, two_effects=False, crash_ms=1100):
        """Attempt 1 is lost in a crash; another attempt 1 runs meanwhile, and is refused by the
        ledger."""
        story = self.story(ledger=True)
        self.log.put("orchestrator", {"event": "run", "seed": 1, "lease_ms": LEASE_MS,
                                      "relaxed": self.relaxed(story)})
        self.log.put("orchestrator", {"event": "fault", "kind": "kill_9_postgres", "target": "pg0",
                                      "t": crash_ms * MS, "until": (crash_ms + 50) * MS})
        first = story.send()
        one = story.start(first, server="server1")
        story.outlive(150)
        second = story.send()
        two = story.start(second, server="server2")
        story.effect(one)
        story.end(one)
        story.ok(first)
        if two_effects:
            story.effect(two, reply="other")
        story.end(two, "lost")
        story.answer(second, "fail", "lost")
        story.ok(story.send(), "replay", reply=second_reply)
        story.probe()

    @staticmethod
    def relaxed(story):
        return [story.record[2]]

    def test_two_attempts_may_be_the_first(self):
        self.lost()
        self.keeps_all()

    def test_only_of_a_relaxed_operation(self):
        self.relaxed = lambda story: []
        self.lost()
        self.assertIn("attempts", self.report().counts)

    def test_only_beside_a_crash(self):
        self.lost(crash_ms=10_000)
        self.assertIn("attempts", self.report().counts)

    def test_two_effects_are_never_allowed(self):
        self.lost(two_effects=True)
        self.assertIn("ledger", self.report().counts)

    def test_two_replies_are_never_allowed(self):
        self.lost(second_reply="other")
        self.assertIn("reply", self.report().counts)
