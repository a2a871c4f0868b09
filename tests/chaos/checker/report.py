"""The checker's findings, for machines and for people."""

import collections

# The maximum number of violations that are printed one by one; all are counted.
LISTED = 1000


class Report:
    """Filled by the checker; to_json() and text() may be called once that is done."""

    def __init__(self):
        self.seed = None
        self.faults = collections.Counter()
        self.counts = collections.Counter()
        self.violations = []
        self.records = 0
        self.torn_lines = 0
        self.undecided = 0
        self.coverage = None

    def add(self, violation, name):
        self.counts[violation.invariant] += 1
        if len(self.violations) < LISTED:
            self.violations.append(violation.to_json(name))

    @property
    def passed(self):
        return not self.counts

    def to_json(self):
        met = {}
        for (kind, phase), count in sorted(self.coverage.met.items()):
            met.setdefault(kind, {})[phase] = count
        return {
            "seed": self.seed,
            "operations": self.coverage.operations,
            "records": self.records,
            "answers": dict(sorted(self.coverage.events.items())),
            "outcomes": dict(sorted(self.coverage.outcomes.items())),
            "faults": dict(sorted(self.faults.items())),
            "fault_phases": met,
            "service": self.coverage.service.to_json(),
            "torn_lines": self.torn_lines,
            "undecided": self.undecided,
            "violations": sum(self.counts.values()),
            "violations_by_invariant": dict(sorted(self.counts.items())),
            "violations_told": self.violations,
        }

    def text(self):
        lines = [f"{self.coverage.operations} operations on {self.records} records, "
                 f"{sum(self.faults.values())} faults, seed {self.seed}"]
        for violation in self.violations[:20]:
            record = "/".join(violation["record"]) if violation["record"] else "the run"
            lines.append(f"VIOLATION {violation['invariant']}: {record}: {violation['message']}")
            lines += [f"    {line}" for line in violation["lines"]]
        total = sum(self.counts.values())
        if total > 20:
            lines.append(f"... and {total - min(20, len(self.violations))} more")
        lines.append("every promise was kept" if self.passed else f"{total} violations")
        return "\n".join(lines)
