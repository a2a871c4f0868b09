from ..history_test_case import END, HistoryTest
from ..record_id import record_id


class ScopesApartTest(HistoryTest):

    def test_seen_from_another(self):
        story = self.completed()
        story.answer(story.send(), "ok", "replay", reply=story.reply,
                   seen=[story.record[0], "somebody", *story.record[2:]])
        self.breaks("scope")

    def test_another_record_id(self):
        story, other = self.completed(), self.story()
        identity = record_id(*story.record)
        call = other.send()
        other.run(call)
        other.answer(call, "ok", "reserved", reply=other.reply, record_id=identity)
        self.breaks("scope")

    def test_a_handler_for_another(self):
        story, other = self.story(), self.story()
        call = story.send()
        execution = other.start(call)
        other.end(execution, "lost")
        story.answer(call, "fail", "lost")
        for one in (story, other):
            one.probe("RELEASED", END)
        self.breaks("scope", "whole")

    def test_the_same_key_in_two_scopes(self):
        first = self.completed()
        second = self.story()
        second.record = [first.record[0], "somebody", *first.record[2:]]
        call = second.send()
        second.run(call)
        second.ok(call)
        self.keeps_all()
