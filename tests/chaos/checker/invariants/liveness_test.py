from ..history_test_case import END, HistoryTest
from ..legal_histories import MS


class LivenessTest(HistoryTest):

    def test_completed_long_ago(self):
        self.completed()
        self.keeps_all()

    def test_never_answered(self):
        story = self.story()
        story.answer(story.send(), "unknown", "none")
        self.breaks("liveness")

    def test_still_in_flight(self):
        story = self.story()
        story.answer(story.send(), "unknown", "none")
        story.answer(story.send(END), "fail", "in_flight", END + MS)
        self.breaks("liveness")

    def test_over_for_good(self):
        for verdict in ("outcome_unknown", "expired"):
            with self.subTest(verdict):
                self.setUp()
                story = self.story()
                story.answer(story.send(), "unknown", "none")
                story.answer(story.send(), "fail", verdict)
                self.keeps_all()

    def reserved_when_looked_at(self, **fields):
        story = self.story()
        story.answer(story.send(), "fail", "outcome_unknown")
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
        story.answer(story.send(), "fail", "outcome_unknown")
        story.answer(story.send(), "unknown", "none")
        self.breaks("liveness")

    def looked_at_late(self, sent_at, state):
        story = self.story()
        story.answer(story.send(), "fail", "outcome_unknown")
        story.answer(story.send(sent_at), "fail", "in_flight")
        story.put("probes", "probe", 60_000 * MS, **{"from": 59_999 * MS}, record=story.record,
                  state=state, attempt=2)

    def test_at_rest_when_looked_at_late(self):
        self.looked_at_late(None, "UNKNOWN")
        self.keeps_all()

    def test_held_when_looked_at_late(self):
        self.looked_at_late(None, "RESERVED")
        self.breaks("liveness")

    def test_requested_before_a_late_probe(self):
        self.looked_at_late(22_000 * MS, "UNKNOWN")
        self.breaks("liveness")

    def late(self, at):
        story = self.story()
        story.answer(story.send(), "unknown", "none")
        story.at = at
        call = story.send()
        story.run(call)
        story.ok(call, at=at + 100 * MS)

    def test_settled_in_time(self):
        self.late(32_500 * MS)
        self.keeps_all()

    def test_settled_too_late(self):
        self.late(33_500 * MS)
        self.breaks("liveness")

    def test_a_release_that_pauses_may_settle_later(self):
        self.log.files["orchestrator"][0]["pause_ms"] = 60_000
        self.late(92_500 * MS)
        self.keeps_all()

    def test_not_answered_after_all(self):
        story = self.completed()
        story.answer(story.send(34_000 * MS), "unknown", "none", 36_000 * MS)
        self.breaks("liveness")
