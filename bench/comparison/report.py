"""Writes a run's numbers into docs/measures.md and draws its chart.

  scripts/bench.sh --json=run.json
  python3 -m bench.comparison.report run.json
"""

import argparse
import json
import pathlib
import sys

from .chart import chart
from .rounds import number

_BEGIN = "<!-- {name}: written by {writer} -->"
_END = "<!-- end of {name} -->"


def caption(run):
    """The run in a line."""
    made = run["run"]
    machine = run["machine"]
    return (f"{machine['processors']} x {machine['processor']}, Linux {machine['kernel']}, "
            f"PostgreSQL {run['versions']['postgres'].split()[0]}, gRPC {run['versions']['grpc']}; "
            f"commit {made['commit']}, {made['at'][:10]}; {made['rounds']} rounds of "
            f"{made['seconds']} s{', quick' if made['quick'] else ''}")


def markdown(outcomes):
    """A table with a row per measure."""
    lines = ["| measure | what | median | min – max | wanted | |", "|---|---|---:|---:|---:|---|"]
    for key, outcome in outcomes.items():
        unit = "" if outcome["unit"] == "x" else " " + outcome["unit"]
        sign = "≥" if outcome["at_least"] else "≤"
        lines.append(
            f"| `{key}` | {outcome['title']} | {number(outcome['median'])}{unit} | "
            f"{number(outcome['min'])} – {number(outcome['max'])} | "
            f"{sign} {number(outcome['want'])}{unit} | {'yes' if outcome['met'] else '**no**'} |")
    return "\n".join(lines)


def with_block(page, name, text, writer="bench/comparison/report.py"):
    """The page with the text between the block's marks replaced."""
    begin, end = _BEGIN.format(name=name, writer=writer), _END.format(name=name)
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no block {name!r}: put these two lines in it:\n"
                         f"{begin}\n{end}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def main():
    parser = argparse.ArgumentParser(prog="python3 -m bench.comparison.report",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("json", type=pathlib.Path, help="from scripts/bench.sh --json=FILE")
    parser.add_argument("--page", type=pathlib.Path, default=pathlib.Path("docs/measures.md"))
    parser.add_argument("--chart", type=pathlib.Path, default=pathlib.Path("docs/performance.svg"))
    options = parser.parse_args()
    run = json.loads(options.json.read_text())
    outcomes = run["measures"]
    if not outcomes:
        sys.exit(f"{options.json} holds no measure")
    page = options.page.read_text()
    page = with_block(page, "numbers", f"{markdown(outcomes)}\n\n{caption(run)}.")
    options.page.write_text(page)
    options.chart.write_text(chart(outcomes, caption(run)))
    print(f"wrote {options.page} and {options.chart}")


if __name__ == "__main__":
    main()
