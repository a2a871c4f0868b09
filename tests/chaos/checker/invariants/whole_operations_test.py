from ..history_test_case import END, HistoryTest


class WholeOperationsTest(HistoryTest):

    def unknown(self, state, reply="d1", **fields):
        story = self.story()
        self.granted(story)
        self.write(story, "complete", "t1", "unknown", "none", reply="d1")
        story.probe(state, END, reply=reply)
        event = self.log.files["probes"][-1]
        event.update(fields)
        return event

    def test_applied(self):
        self.unknown("COMPLETED")
        self.keeps_all()

    def test_not_applied(self):
        self.unknown("RESERVED")
        self.breaks("liveness")  # There is no more: the attempt has no end.

    def test_half_without_reply(self):
        del self.unknown("COMPLETED")["reply"]
        self.breaks("whole", "order")

    def test_half_with_another_reply(self):
        self.unknown("COMPLETED", reply="d2")
        self.breaks("whole", "order")

    def test_half_with_parts_missing(self):
        self.unknown("COMPLETED", whole=False)
        self.breaks("whole")

    def test_out_of_thin_air(self):
        story = self.story()
        story.probe("RELEASED", END)
        self.assertIn("whole", self.report().counts)
