import tempfile

from .checker import check
from .coverage import Thresholds
from .history_test_case import ANYTHING, HistoryTest
from .legal_histories import MS

SERVED = 0.9
# In the middle of the fault below.
DURING = 12_000 * MS


class ServiceTest(HistoryTest):
    """A fault from 10 s to 18 s during which nine of ten calls have to be served."""

    def setUp(self):
        super().setUp()
        self.log.put("orchestrator", {"event": "fault", "kind": "hostile", "target": "all",
                                      "t": 10_000 * MS, "until": 18_000 * MS, "served": SERVED})

    def send(self, calls, event="ok", verdict="replay", at=DURING, **fields):
        story = self.completed()
        for number in range(calls):
            call = story.send(at + number * MS)
            if event == "ok":
                story.ok(call, verdict, at + number * MS + 1)
            else:
                story.answer(call, event, verdict, at + number * MS + 1, **fields)

    def test_all_served(self):
        self.send(10)
        self.keeps_all()

    def test_too_few_served(self):
        for answer in ({"event": "unknown", "verdict": "none", "code": "UNAVAILABLE"},
                       {"event": "unknown", "verdict": "none", "code": "DEADLINE_EXCEEDED"},
                       {"event": "fail", "verdict": "unavailable"},
                       {"event": "fail", "verdict": "overloaded"}):
            with self.subTest(answer):
                self.setUp()
                self.send(8)
                self.send(2, **answer)
                report = self.report()
                self.assertEqual(set(report.counts), {"coverage"}, report.text())
                self.assertIn("80.0% of 10 calls were served", report.text())

    def test_the_handlers_own_error_is_an_answer(self):
        self.send(8)
        self.send(2, "unknown", "none", code="INTERNAL")
        self.keeps_all()

    def test_its_beginning_and_its_end_do_not_count(self):
        self.send(8)
        self.send(2, "fail", "unavailable", at=10_500 * MS)
        self.send(2, "fail", "unavailable", at=15_000 * MS)
        self.keeps_all()

    def test_callers_are_given_time_to_turn_away(self):
        self.log.put("orchestrator", {"event": "fault", "kind": "frozen", "target": "daemon1",
                                      "t": 1000 * MS, "until": 9999 * MS, "served": SERVED,
                                      "settled_ms": 4000})
        self.send(10)
        self.send(2, "fail", "unavailable", at=4900 * MS)
        self.send(10, at=5100 * MS)
        self.keeps_all()
        self.send(2, "fail", "unavailable", at=5200 * MS)
        self.assertIn("of 12 calls were served during frozen", self.report().text())

    def test_without_calls(self):
        report = self.report()
        self.assertIn("no calls while hostile went on", report.text())

    def test_of_several_processes(self):
        self.send(8)
        self.send(2, "fail", "unavailable")
        with tempfile.TemporaryDirectory(prefix="chaos-checker-test.") as folder:
            self.log.write(folder)
            report = check(folder, Thresholds(**vars(ANYTHING)), jobs=2, bucket_bytes=1)
        self.assertIn("80.0% of 10 calls were served", report.text())
        self.assertEqual(report.to_json()["service"], {"hostile": {"calls": 10, "unserved": 2}})
