from ..history_test_case import END, HistoryTest


class OneReplyTest(HistoryTest):

    def test_two(self):
        story = self.completed()
        story.put("effects", "probe", END, **{"from": END}, record=story.record, state="COMPLETED",
                  reply=story.reply)
        call = story.send()
        story.end(story.start(call, 1), reply="other")
        story.ok(call, "replay", reply="other")
        self.assertIn("reply", self.report().counts)

    def test_of_nobody(self):
        story = self.completed()
        story.ok(story.send(), "replay", reply="other")
        self.breaks("reply")

    def test_the_same(self):
        story = self.completed()
        story.ok(story.send(), "replay")
        self.keeps_all()

    def test_part_of_it_that_is_marked_so(self):
        story = self.completed()
        story.answer(story.send(), "ok", "replay", reply="part", content="partial")
        self.keeps_all()

    def test_raw(self):
        for second, broken in (("d1", ()), ("d2", ("order", "reply"))):
            with self.subTest(second):
                self.setUp()
                story = self.story()
                self.granted(story)
                self.write(story, "complete", "t1", reply="d1")
                story.answer(story.send(kind="reserve"), "ok", "replay", reply=second)
                self.breaks(*broken) if broken else self.keeps_all()
