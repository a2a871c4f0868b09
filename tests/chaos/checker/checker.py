"""Reads a folder of logs and checks every promise against it, in bounded memory."""

import concurrent.futures
import tempfile

from .coverage import Coverage, Thresholds
from .history import History
from .invariants import INVARIANTS
from .invariants.serial_order import SerialOrder
from .log_folder import Buckets, LogFolder
from .log_format import parse
from .report import LISTED, Report
from .run import Run
from .violation import Violation

# Of log in one bucket; its events take some fifteen times that in memory.
BUCKET_BYTES = 24 * 1024 * 1024


class BucketResult:
    """The result of one bucket's records."""

    def __init__(self):
        self.coverage = Coverage()
        self.violations = []
        # For each invariant, those beyond the printed ones.
        self.unlisted = {}
        self.records = 0
        self.decided = 0
        self.undecided = 0

    def add(self, violation):
        if len(self.violations) < LISTED:
            self.violations.append(violation)
        else:
            self.unlisted[violation.invariant] = self.unlisted.get(violation.invariant, 0) + 1


def check_bucket(path, run):
    """All invariants over all records of the bucket at `path`."""
    result = BucketResult()
    invariants = [invariant() for invariant in INVARIANTS]
    for history in _histories(path, run):
        history.seal()
        result.records += 1
        result.coverage.see(history)
        for what, line in history.malformed:
            result.add(Violation("format", history.record, what, [line]))
        lossy = history.may_have_lost()
        for invariant in invariants:
            if lossy and not invariant.survives_loss:
                continue
            for violation in invariant.check(history):
                result.add(violation)
    order = next(i for i in invariants if isinstance(i, SerialOrder))
    result.decided, result.undecided = order.decided, order.undecided
    return result


def _histories(path, run):
    histories, of_operation, of_execution = {}, {}, {}
    with open(path, "rb") as lines:
        for text in lines:
            file, count, body = text.split(b" ", 2)
            line = (int(file), int(count))
            event = parse(body)
            kind = event["event"]
            record = event.get("record")
            if record is not None:
                key = tuple(record)
                history = histories.get(key)
                if history is None:
                    history = histories[key] = History(key, run)
                if kind == "invoke":
                    of_operation[line[0], event["id"]] = history
                elif kind == "start":
                    of_execution[line[0], event["id"]] = history
            elif kind == "end":
                history = of_execution.pop((line[0], event["id"]))
            else:
                history = of_operation.pop((line[0], event["id"]))
            history.add(event, line)
    # Each is deleted once it was checked.
    while histories:
        yield histories.popitem()[1]


def check(folder, thresholds=None, jobs=1, bucket_bytes=BUCKET_BYTES, scratch=None):
    """The Report of the logs in `folder`. `scratch` needs as much room as they do."""
    log, run, report = LogFolder(folder), Run(), Report()
    coverage, decided = Coverage(), 0
    with tempfile.TemporaryDirectory(prefix="chaos-checker.", dir=scratch) as temporary:
        buckets = Buckets(temporary, min(512, 1 + log.bytes // bucket_bytes))
        report.torn_lines = log.split(
            buckets, run.add,
            lambda what, line: report.add(Violation("format", None, what, [line]), log.name))
        buckets.close()
        run.seal()
        for result in _results(buckets.paths(), run, jobs):
            coverage.merge(result.coverage)
            report.records += result.records
            report.undecided += result.undecided
            decided += result.decided
            for violation in result.violations:
                report.add(violation, log.name)
            report.counts.update(result.unlisted)
    report.seed = run.seed
    report.coverage = coverage
    for fault in run.faults:
        report.faults[fault.kind] += 1
    for violation in coverage.check(run, thresholds or Thresholds(), (decided, report.undecided)):
        report.add(violation, log.name)
    return report


def _results(paths, run, jobs):
    if jobs == 1:
        for path in paths:
            yield check_bucket(path, run)
        return
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(check_bucket, paths, [run] * len(paths))
