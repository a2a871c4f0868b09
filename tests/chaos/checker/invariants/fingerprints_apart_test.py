from ..history_test_case import END, HistoryTest
from ..legal_histories import LEASE_MS


class FingerprintsApartTest(HistoryTest):

    def test_a_replay_for_another(self):
        story = self.completed()
        story.ok(story.send(fp="b"), "replay")
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
        story.answer(story.send(fp="b"), "fail", "mismatch")
        self.keeps_all()

    def test_a_refusal_for_the_same(self):
        story = self.completed()
        story.answer(story.send(), "fail", "mismatch")
        self.breaks("fingerprint")

    def test_the_handler_got_another(self):
        story = self.story()
        call = story.send()
        execution = story.start(call, fp="b")
        story.effect(execution)
        story.end(execution)
        story.answer(call, "unknown", "none")
        story.probe(at=END)
        self.breaks("fingerprint")
