from ..history_test_case import END, HistoryTest
from ..legal_histories import LEASE_MS, MS


class StaleTokensTest(HistoryTest):

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
