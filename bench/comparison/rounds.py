"""Numbers of interleaved rounds, and their ratios."""

import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Target:
    """The target of a measure."""

    key: str
    title: str
    want: float
    # True: at least `want`; False: at most.
    at_least: bool
    # "x" for a ratio, "" for a count.
    unit: str = "x"


@dataclasses.dataclass
class Outcome:
    """A measure's value in each round."""

    target: Target
    values: list
    # The parts of the rounds, for the JSON.
    raw: list

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def met(self):
        if self.target.at_least:
            return self.median >= self.target.want
        return self.median <= self.target.want

    def to_json(self):
        return {
            "title": self.target.title,
            "median": self.median,
            "min": min(self.values),
            "max": max(self.values),
            "want": self.target.want,
            "at_least": self.target.at_least,
            "unit": self.target.unit,
            "met": self.met,
            "values": self.values,
            "raw": self.raw,
        }


def table(outcomes):
    """Lines of text, one per measure, from the result of to_json()."""
    rows = [("measure", "median", "min", "max", "want", "")]
    for key, outcome in outcomes.items():
        unit = "" if outcome["unit"] in ("", "x") else " " + outcome["unit"]
        sign = ">=" if outcome["at_least"] else "<="
        rows.append((key, number(outcome["median"]) + unit, number(outcome["min"]),
                     number(outcome["max"]), f"{sign} {number(outcome['want'])}{unit}",
                     "ok" if outcome["met"] else "MISSED"))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [row[i].rjust(widths[i]) for i in range(1, 5)]
        lines.append("  ".join(cells + [row[5]]).rstrip())
    return lines


def number(value):
    """Three significant digits."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
