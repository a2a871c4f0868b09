"""Runs the comparison. scripts/bench.sh builds what it needs and calls it."""

import argparse
import datetime
import json
import pathlib
import platform
import subprocess
import sys
import time

from tests.support.subreaper import run_under_subreaper

from .bench import complain, progress
from .machine import commit, machine
from .measures import MEASURES, TARGETS
from .rounds import table
from .run import run_of

# The measures that --quick omits: their tables alone take minutes to fill.
SLOW = {"cycles_full_vs_empty", "cycles_full_mixed"}


def parse(arguments):
    keys = "\n".join(f"  {key:28}{target.title}" for key, target in TARGETS.items())
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="""\
Compares the service with its theoretical best on this machine: starts a private
Postgres, idempotencyd and servers of the release build, and puts load on them
alternately with a floor (pgbench with the two commits that a library would make;
a bare gRPC server). Prints the ratio of each measure. Compare ratios only;
absolute numbers depend on the machine: see docs/measures.md.""",
        epilog=f"""\
measures:
{keys}

examples:
  scripts/bench.sh --quick                             a rough result, in under 4 minutes
  scripts/bench.sh --only=replay_vs_echo,rss_mib
  scripts/bench.sh --only=cycles_full_vs_empty --rows=2000000
  scripts/bench.sh --only=guarded_first_vs_floor --rounds=1 --profile
  scripts/bench.sh --json=run.json && python3 -m bench.comparison.report run.json

Exit status: 0 if every measure was taken, regardless of its result; 1 if one failed;
2 for a bad argument.""")
    parser.add_argument("--quick", action="store_true",
                        help="shorter and fewer rounds, without the large table")
    parser.add_argument("--only", metavar="KEY,...", help="only these measures")
    parser.add_argument("--json", metavar="FILE", help="write all numbers here")
    parser.add_argument("--rounds", type=int, help="rounds of floor and measure (5; quick: 3)")
    parser.add_argument("--seconds", type=int,
                        help="how long each side of a round is measured (8; quick: 1)")
    parser.add_argument("--rows", type=int, default=20_000_000,
                        help="records in the full table (20000000, which take 25 GB)")
    parser.add_argument("--expired_rows", type=int,
                        help="records to be swept (5000000; quick: 300000)")
    parser.add_argument("--profile", action="store_true",
                        help="also show the CPU time of each load by function (needs "
                        "perf, which takes some of that time itself)")
    parser.add_argument("--preload", metavar="LIBRARY",
                        help="a shared library that the guarded server loads first, such as "
                        "another allocator")
    parser.add_argument("--folder", help="folder for the data of the run (a temporary folder)")
    parser.add_argument("--binaries", default="build/release/bin", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    for name in (options.only or "").split(","):
        if name and name not in MEASURES:
            parser.error(f"unknown measure {name}; see --help")
    for name in ("rounds", "seconds", "rows", "expired_rows"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name} must be at least 1")
    quick = options.quick
    options.rounds = options.rounds or (3 if quick else 5)
    options.seconds = options.seconds or (1 if quick else 8)
    options.warmup = 0.5 if quick else 1
    options.expired_rows = options.expired_rows or (300_000 if quick else 5_000_000)
    options.large_in_flight = 64 if quick else 256
    options.replayed_keys = 10_000 if quick else 50_000
    return options


def wanted(options):
    if options.only:
        return [key for key in MEASURES if key in options.only.split(",")]
    return [key for key in MEASURES if not (options.quick and key in SLOW)]


def versions(bench):
    daemon = subprocess.run([bench.binary("idempotencyd"), "--version"], capture_output=True,
                            text=True, check=True)
    grpc = subprocess.run(["pkg-config", "--modversion", "grpc++"], capture_output=True, text=True,
                          check=False)
    return {"idempotencyd": daemon.stdout.split()[-1], "grpc": grpc.stdout.strip(),
            "postgres": bench.cluster.version(), "python": platform.python_version()}


def run(options, bench):
    """Returns the result of each measure, and the keys of those that failed."""
    outcomes, failed, done = {}, [], set()
    keys = wanted(options)
    bench.wants = set(keys).__contains__
    for key in keys:
        function = MEASURES[key]
        if function in done:
            continue
        done.add(function)
        began = time.monotonic()
        progress(f"\n== {key}: {TARGETS[key].title}")
        try:
            for outcome in function(bench):
                if outcome.target.key in keys:
                    outcomes[outcome.target.key] = outcome.to_json()
        except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
            complain(f"    failed: {error}")
            failed += [name for name in keys if MEASURES[name] is function]
            bench.stop_servers()
        bench.log(f"took {time.monotonic() - began:.0f} s")
    return outcomes, failed


def document(options, bench, outcomes, facts):
    """The medians by key, and all numbers behind them."""
    return {
        **{key: outcome["median"] for key, outcome in outcomes.items()},
        "measures": outcomes,
        "run": {"at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "commit": commit(), "quick": options.quick, "rounds": options.rounds,
                "seconds": options.seconds, "rows": options.rows,
                "expired_rows": options.expired_rows, "reply_bytes": 256},
        "machine": facts,
        "versions": versions(bench),
    }


def main():
    run_under_subreaper()
    options = parse(sys.argv[1:])
    facts = machine()
    began = time.monotonic()
    with run_of(options, options.binaries, "idempotency-bench.", options.folder) as bench:
        outcomes, failed = run(options, bench)
        result = document(options, bench, outcomes, facts)
    progress("")
    for line in table(outcomes):
        progress(line)
    progress(f"\n{len(outcomes)} measures in {(time.monotonic() - began) / 60:.1f} min")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
        progress(f"all numbers: {options.json}")
    if failed:
        complain("could not be made: " + ", ".join(failed))
        sys.exit(1)


main()
