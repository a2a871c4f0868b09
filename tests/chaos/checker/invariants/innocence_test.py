from ..history_test_case import HistoryTest


class InnocenceTest(HistoryTest):

    def refused(self, verdict, **fields):
        story = self.completed()
        story.answer(story.send(**fields), "fail", verdict)

    def test_refused_for_another_callers_bytes(self):
        for verdict in ("invalid", "key_invalid"):
            with self.subTest(verdict):
                self.setUp()
                self.refused(verdict)
                self.breaks("innocence")

    def test_refused_for_its_own_request(self):
        self.refused("mismatch", fp="b")
        self.keeps_all()
