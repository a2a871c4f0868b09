from ..history_test_case import HistoryTest


class KeysRequiredTest(HistoryTest):

    def keyless(self):
        story = self.story()
        story.record = [*story.record[:3], ""]
        return story

    def test_a_handler_ran(self):
        story = self.keyless()
        call = story.send()
        story.end(story.start(call), "refused", reply="r")
        story.answer(call, "unknown", "none")
        self.breaks("key")

    def test_answered(self):
        story = self.keyless()
        story.answer(story.send(), "ok", "reserved", reply=None)
        self.breaks("key")

    def test_refused(self):
        story = self.keyless()
        story.answer(story.send(), "fail", "key_missing")
        self.keeps_all()
