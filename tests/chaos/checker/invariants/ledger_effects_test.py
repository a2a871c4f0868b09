from ..history_test_case import END, HistoryTest
from ..legal_histories import LEASE_MS


class LedgerEffectsTest(HistoryTest):

    def killed(self, effects, answer=True):
        story = self.story(ledger=True)
        first = story.send()
        execution = story.start(first)
        if effects > 0:
            story.effect(execution)
        story.answer(first, "unknown", "none")
        story.outlive(LEASE_MS)
        second = story.send()
        execution = story.start(second, 2)
        if effects > 1:
            story.effect(execution)
        story.end(execution)
        if answer:
            story.ok(second)
        story.probe("COMPLETED" if answer else "RELEASED", END, 2)
        return story

    def test_two(self):
        self.killed(2)
        self.breaks("ledger")

    def test_one(self):
        self.killed(1)
        self.keeps_all()

    def test_none_and_completed(self):
        self.killed(0)
        self.breaks("ledger", "effects")

    def test_none_and_not_completed(self):
        self.killed(0, answer=False)
        self.keeps_all()

    def test_two_without_the_ledger(self):
        for _, event in self.killed(2).events:
            if "ledger" in event:
                event["ledger"] = False
        self.keeps_all()

    def test_another_reply_than_the_committed(self):
        story = self.story(ledger=True)
        call = story.send()
        execution = story.start(call)
        story.effect(execution, reply="committed")
        story.end(execution)
        story.ok(call)
        story.probe(at=END)
        self.breaks("ledger", "whole")
