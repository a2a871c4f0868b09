from ..history_test_case import END, HistoryTest
from ..legal_histories import LEASE_MS, MS


class LeasesApartTest(HistoryTest):

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
        story.answer(story.send(2000 * MS, kind="extend", token="t1"), event, "extended", 2001 * MS,
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
        first, second = story.send(), story.send()
        one = story.start(first)
        if ended:
            story.end(one, "no_effect")
        story.answer(first, "unknown", "none")
        story.run(second, 2)
        story.ok(second)

    def test_two_handlers(self):
        self.handlers(ended=False)
        self.breaks("leases")

    def test_one_handler_after_the_other(self):
        self.handlers(ended=True)
        self.keeps_all()
