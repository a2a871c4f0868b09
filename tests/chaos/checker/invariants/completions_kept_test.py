from ..history_test_case import END, HistoryTest
from ..legal_histories import MS


class CompletionsKeptTest(HistoryTest):

    def test_ran_again(self):
        story = self.completed(ledger=True)
        call = story.send()
        execution = story.start(call, 2)
        story.end(execution, "lost")
        story.answer(call, "fail", "lost")
        self.breaks("kept")

    def test_ran_again_in_the_name_of_an_earlier_call(self):
        story = self.story(ledger=True)
        early = story.send()
        call = story.send()
        story.run(call)
        story.ok(call)
        execution = story.start(early, 2)
        story.end(execution, "lost")
        story.answer(early, "fail", "lost")
        self.keeps_all()

    def test_answers_that_forgot(self):
        for verdict in ("in_flight", "outcome_unknown", "expired"):
            with self.subTest(verdict):
                self.setUp()
                story = self.completed()
                story.answer(story.send(), "fail", verdict)
                self.breaks("kept")

    def test_an_answer_to_an_earlier_request(self):
        story = self.story()
        early, call = story.send(), story.send()
        story.run(call)
        story.ok(call)
        story.answer(early, "fail", "in_flight")
        self.keeps_all()

    def test_a_probe_that_forgot(self):
        story = self.completed()
        story.probe("RESERVED", END)
        self.breaks("kept")

    def acknowledged_by_a_probe(self, at=None):
        story = self.story()
        call = story.send()
        story.run(call)
        story.answer(call, "unknown", "none")
        story.probe("COMPLETED", at)
        story.probe("RESERVED", END + 10 * MS)
        story.probe("COMPLETED", END + 20 * MS)

    def test_a_probe_of_what_may_be_taken_back(self):
        self.acknowledged_by_a_probe()
        self.keeps_all()

    def test_a_probe_of_what_nothing_takes_back(self):
        self.acknowledged_by_a_probe(END)
        self.breaks("kept")

    def test_a_probe_after_its_retention(self):
        story = self.story()
        call = story.send(retention_ms=5000)
        story.run(call)
        story.ok(call)
        story.probe("NONE", END)
        self.keeps_all()

    def test_unknown_is_no_acknowledgement(self):
        story = self.story()
        call = story.send()
        story.run(call)
        story.answer(call, "unknown", "none")
        story.answer(story.send(), "fail", "in_flight")
        story.probe("COMPLETED", END)
        self.keeps_all()
