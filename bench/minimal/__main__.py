"""A guarded call beside a minimal program that does the same work: what gRPC's callback API and
Postgres cost by themselves. In each round every contender has a turn at every load, so that a busy
machine affects all of them alike; each runs alone.

    scripts/bench.sh --minimal [--rounds=5] [--seconds=3] [--json=FILE] [--page=docs/measures.md]

Postgres is private, and every commit is flushed. minimal_server.cc, minimal_daemon.cc: what it
leaves out."""

import argparse
import json
import pathlib
import statistics
import sys

from bench.comparison.bench import progress
from bench.comparison.floor import Floor
from bench.comparison.machine import busy_note, commit, machine
from bench.comparison.measures import completed_keys
from bench.comparison.report import with_block
from bench.comparison.run import run_of
from tests.support.subreaper import run_under_subreaper

from .contenders import contenders

_FLOOR = "pgbench's two commits"
# What a column holds: its title, and the number of a report.
_KINDS = {"server": "charges", "daemon": "idempotencyd", "Postgres": "postgres"}
_BLOCK = "a minimal program"
_WRITER = "bench/minimal/__main__.py"


class Load:
    """Calls of one kind, so many in flight. Keys are those that a contender has completed before."""

    def __init__(self, name, title, in_flight, replayed_keys=0, cached=False):
        self.name = name
        self.title = f"{title}, {in_flight} in flight"
        self.in_flight = in_flight
        self.replayed_keys = replayed_keys
        self.cached = cached


def loads(options):
    """In the order of their turns."""
    firsts = [Load(f"first/{crowd}", "first calls", crowd) for crowd in (1, 16, 64)]
    return firsts + [
        Load("replay/64", "replays of distinct keys", 64, options.replayed_keys),
        # So few that all of them stay in the cache.
        Load("hot/64", "replays from the process's cache", 64, 1000, cached=True)]


def turn(bench, title, contender, load, keys):
    """The report of one contender. `keys` are its completed keys by load, made at the first turn."""
    target = contender.start()
    try:
        flags = {"in_flight": load.in_flight}
        if title != "unguarded":
            flags["key"] = "fresh"
            if load.replayed_keys:
                if (title, load.name) not in keys:
                    keys[title, load.name] = completed_keys(
                        bench, lambda **all: bench.load("charges", target, key="fresh", **all),
                        load.replayed_keys)
                flags.update(keys[title, load.name], key="replayed")
        return bench.load("charges", target, **flags)
    finally:
        contender.stop()


def measure(bench, options):
    """Reports by load and contender, one of each round."""
    floor = Floor(bench.cluster, bench.folder)
    kinds = {cached: contenders(bench, cached) for cached in (False, True)}
    reports, keys = {}, {}
    for number in range(options.rounds):
        progress(f"== round {number + 1} of {options.rounds}")
        for load in loads(options):
            of_load = reports.setdefault(load.name, {})
            if not load.replayed_keys:
                rate = floor.cycles_per_second(options.seconds, load.in_flight)
                of_load.setdefault(_FLOOR, []).append({"per_second": rate})
            for title, contender in kinds[load.cached].items():
                report = turn(bench, title, contender, load, keys)
                of_load.setdefault(title, []).append(report)
                bench.log(f"{load.title}, {title}: {report['per_second']:,.0f}/s")
    return reports


def _numbers(report):
    """The numbers of a report's row, by column. Some are missing for pgbench."""
    row = {"calls/s": report["per_second"], "median, us": report.get("p50_us"),
           "p99, us": report.get("p99_us")}
    for name, field in (("switches", "switches"), ("processor us", "cpu_us")):
        found = report.get(field, {})
        row.update({f"{name}: {title}": found.get(kind) for title, kind in _KINDS.items()})
        parts = [found[kind] for kind in _KINDS.values() if kind in found]
        row[f"{name}: all"] = sum(parts) if parts else None
    return row


def _medians(rows):
    """The median of each column over the rounds that have a number; a ratio to 0 has none."""
    numbers = {name: [row[name] for row in rows if row[name] is not None] for name in rows[0]}
    return {name: statistics.median(found) if found else None for name, found in numbers.items()}


def _ratios(ours, minimal):
    """Of each round."""
    return [{name: None if value is None or not below[name] else value / below[name]
             for name, value in row.items()} for row, below in zip(ours, minimal)]


_TITLES = {"switches": "switches: all (server + daemon + Postgres)",
           "processor us": "CPU time, us: all (the same)"}


def _number(name, value):
    return f"{value:.1f}" if name == "switches" else f"{value:,.0f}"


def _cells(values):
    """Of one contender: the sums, with their parts behind them."""
    cells = ["–" if values[one] is None else f"{values[one]:,.0f}"
             for one in ("calls/s", "median, us", "p99, us")]
    for name in _TITLES:
        if values[f"{name}: all"] is None:
            cells.append("–")
            continue
        parts = [values[f"{name}: {kind}"] for kind in _KINDS]
        shown = [_number(name, part) for part in parts if part is not None]
        total = _number(name, values[f"{name}: all"])
        cells.append(total if len(shown) == 1 else f"{total} ({' + '.join(shown)})")
    return cells


def _ratio_cells(values):
    return ["–" if values[one] is None else f"{values[one]:.2f} x"
            for one in ("calls/s", "median, us", "p99, us", *(f"{name}: all" for name in _TITLES))]


def table(of_load, title):
    """Markdown: a row for each contender, then guarded / minimal, each the median of the rounds."""
    rows = {name: [_numbers(report) for report in found] for name, found in of_load.items()}
    lines = [f"| {title} | calls/s | median, us | p99, us | " + " | ".join(_TITLES.values()) + " |",
             "|---|---:|---:|---:|---:|---:|"]
    for name, found in rows.items():
        lines.append(f"| {name} | " + " | ".join(_cells(_medians(found))) + " |")
    for kind in ("", ", embedded"):
        values = _medians(_ratios(rows["guarded" + kind], rows["minimal" + kind]))
        lines.append(f"| guarded / minimal{kind} | " + " | ".join(_ratio_cells(values)) + " |")
    return "\n".join(lines)


def text(run, options):
    """For the terminal and for the page."""
    facts = run["machine"]
    caption = (f"{facts['processors']} x {facts['processor']}, Linux {facts['kernel']}; commit "
               f"{run['commit']}; medians of {options.rounds} rounds of {options.seconds} s"
               + busy_note(facts["load_average_before"], facts["processors"]))
    return "\n\n".join([table(run["reports"][load.name], load.title) for load in loads(options)]
                       + [caption + "."])


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python3 -m bench.minimal",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path, help="a file for all numbers")
    parser.add_argument("--page", type=pathlib.Path,
                        help=f"a page whose block '{_BLOCK}' gets the tables")
    parser.add_argument("--folder", help="folder for the data of the run (a temporary folder)")
    parser.add_argument("--binaries", default="build/release/bin", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.warmup = 1
    options.profile = False
    options.replayed_keys = 20_000
    return options


def main():
    run_under_subreaper()
    options = parse(sys.argv[1:])
    run = {"machine": machine(), "commit": commit()}
    with run_of(options, options.binaries, "idempotency-minimal.", options.folder) as bench:
        run["reports"] = measure(bench, options)
    tables = text(run, options)
    progress(f"\n{tables}")
    if options.json is not None:
        options.json.write_text(json.dumps(run, indent=1) + "\n")
    if options.page is not None:
        options.page.write_text(with_block(options.page.read_text(), _BLOCK, tables, _WRITER))
    return 0


if __name__ == "__main__":
    sys.exit(main())
