"""The checker as a whole: the format, the coverage of a run, the report, the command."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from . import coverage
from .checker import check
from .coverage import PHASES, Thresholds
from .legal_histories import MS, LegalLog
from .record_id import record_id

ANYTHING = Thresholds(per_verdict=0, ok_share=0, per_fault_phase=0)
SHORT = {"per_verdict": 20, "ok_share": 0.5}
ROOT = pathlib.Path(__file__).parents[3]


class CheckerTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="chaos-checker-test.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def log(self, records=1500, seed=7):
        log = LegalLog(seed, records)
        log.write(self.folder)
        return log

    def append(self, name, text):
        with open(self.folder / f"{name}.jsonl", "a", encoding="utf-8") as file:
            file.write(text)

    def messages(self, thresholds=None):
        return [violation["message"] for violation in check(self.folder, thresholds).violations]


class Coverage(CheckerTest):

    def test_enough(self):
        self.log()
        self.assertEqual(self.messages(Thresholds(**SHORT)), [])

    def test_a_verdict_that_was_hardly_met(self):
        self.log()
        self.assertRegex(self.messages(Thresholds(("expired",), 10_000, 0))[0],
                         r"verdict expired was met \d+ times, at least 10000 are wanted")
        self.assertEqual(self.messages(Thresholds(("expired",), 1, 0)), [])

    def test_too_few_were_ok(self):
        self.log()
        self.assertRegex(self.messages(Thresholds(per_verdict=20, ok_share=0.9))[0], "were ok, at least 90%")

    def test_nothing_happened(self):
        self.log(0)
        self.assertRegex(" ".join(self.messages(ANYTHING)), "of 0 operations were ok")

    def test_a_fault_that_met_nothing(self):
        self.log()
        # It reaches one server, which no call was sent to.
        self.append("more", json.dumps({"event": "fault", "kind": "freeze", "target": "server9",
                                        "t": 1500 * MS, "servers": ["server9"]}) + "\n")
        self.assertEqual(self.messages(Thresholds(**SHORT)), ["fault freeze met no call"] + [
            f"fault freeze met 0 calls that were {phase}, at least 1 are wanted"
            for phase in ("reserving", "executing", "recording")])
        # At any share of the total, a fault that met no call proves nothing.
        self.assertEqual(self.messages(Thresholds(rare_share=1, **SHORT)),
                         ["fault freeze met no call"])

    def test_a_fault_that_seldom_met_a_phase(self):
        met = {"often": (9, 9, 9), "seldom": (9, 1, 9)}

        def messages(**thresholds):
            seen = coverage.Coverage()
            for kind, counts in met.items():
                seen.met.update({(kind, phase): count for phase, count
                                     in zip(PHASES, counts)})
            return list(seen.rare(sorted(met), Thresholds(per_fault_phase=5, **thresholds)))
        # One of six pairs.
        self.assertEqual(messages(rare_share=0.17), [])
        self.assertEqual(messages(rare_share=0.16), [
            "fault seldom met 1 calls that were executing, at least 5 are wanted"])

    def test_a_fault_that_did_not_happen(self):
        self.log()
        self.assertEqual(self.messages(Thresholds(faults=("kill_server", "disk_full"), **SHORT)),
                         ["fault disk_full did not happen"])

    def test_without_seed_or_end(self):
        log = self.log()
        log.files["orchestrator"] = [event for event in log.files["orchestrator"]
                                     if event["event"] == "fault"]
        log.write(self.folder)
        # The lease is unknown then, too.
        self.assertTrue({"the log has no seed", "the log does not say when the last fault was over"}
                        <= set(self.messages(ANYTHING)))


class Format(CheckerTest):

    def test_lines_that_are_not_of_the_format(self):
        self.log(50)
        invoke = {"event": "invoke", "t": 1, "id": "i", "client": "c", "record": ["a", "b", "c", "d"]}
        for line, message in (
                ("{", "no event of the format"),
                ("[1]", "no event of the format"),
                ('{"event": "surprise"}', "no event of the format"),
                (json.dumps({**invoke, "t": "1"}), "invoke without a valid t"),
                (json.dumps({**invoke, "record": ["a"]}), "a record is"),
                (json.dumps({**invoke, "kind": "other"}), "kind cannot be 'other'"),
                ('{"event": "ok", "t": 1, "id": "nobody", "verdict": "replay"}', "did not begin")):
            with self.subTest(line):
                path = self.folder / "more.jsonl"
                path.write_text(line + "\n", encoding="utf-8")
                report = check(self.folder, ANYTHING)
                self.assertEqual(dict(report.counts), {"format": 1})
                self.assertRegex(report.violations[0]["message"], message)
                self.assertEqual(report.violations[0]["lines"], ["more.jsonl:1"])

    def test_an_id_twice(self):
        log = self.log(50)
        invoke = json.dumps(next(event for event in log.files["client1"]
                                 if event["event"] == "invoke")) + "\n"
        self.append("more", invoke)
        self.assertIn("format", check(self.folder, ANYTHING).counts)

    def test_a_grant_without_token(self):
        self.log(50)
        record = ["a", "b", "c", "d"]
        for event in ({"event": "invoke", "t": 1, "id": "i", "client": "c", "kind": "reserve",
                       "record": record},
                      {"event": "ok", "t": 2, "id": "i", "verdict": "reserved"}):
            self.append("more", json.dumps(event) + "\n")
        self.assertIn("format", check(self.folder, ANYTHING).counts)

    def test_a_committed_effect_without_its_reply(self):
        log = self.log(200)
        effect = next(event for event in log.files["effects"] if event["ledger"])
        del effect["reply"]
        log.write(self.folder)
        self.assertEqual(check(self.folder, ANYTHING).counts["format"], 1)

    def test_a_torn_last_line(self):
        self.log(50)
        self.append("client0", '{"event":"inv')
        report = check(self.folder, ANYTHING)
        self.assertTrue(report.passed, report.text())
        self.assertEqual(report.torn_lines, 1)


class Whole(CheckerTest):

    def test_buckets_and_processes_make_no_difference(self):
        log = self.log()
        for story in log.stories[:60]:
            for _, event in story.events:
                if event["event"] == "effect":
                    event["attempt"] += 7
        log.write(self.folder)
        one = check(self.folder)
        many = check(self.folder, bucket_bytes=50_000, jobs=2)
        self.assertGreater(one.counts["effects"], 10)
        self.assertEqual(self.comparable(one), self.comparable(many))

    @staticmethod
    def comparable(report):
        result = report.to_json()
        result["violations_told"].sort(key=str)
        return result

    def test_the_command(self):
        self.log()
        report = self.folder / "report.json"
        command = [sys.executable, "-m", "tests.chaos.checker", str(self.folder), "--json",
                   str(report), "--ok-share", "0.5", "--per-verdict", "20"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        result = json.loads(report.read_text())
        self.assertEqual(result["seed"], 7)
        self.assertEqual(result["faults"], {"cut_link": 100, "kill_daemon": 100,
                                            "kill_server": 100})
        self.assertEqual(result["violations"], 0)
        self.assertEqual(result["operations"], sum(result["outcomes"].values()))
        self.assertGreater(result["outcomes"]["in_flight"], 100)
        done = subprocess.run([*command, "--per-verdict", "100000"], cwd=ROOT, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, "VIOLATION coverage: the run: verdict reserved was met")
        self.assertEqual(json.loads(report.read_text())["violations_by_invariant"],
                         {"coverage": 6})


class RecordIds(unittest.TestCase):
    """The vectors of core/record_key_test.cc."""

    def test_vectors(self):
        parts = ("payments", "tenant-42", "/payments.v1.Payments/Charge")
        self.assertEqual(record_id(*parts, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
                         "017f22e279b08a68d8696bbf7e30295e")
        self.assertEqual(record_id(*parts, "order-17"), "81aad2a5940d735c99910d9d015dfad7")


if __name__ == "__main__":
    unittest.main()
