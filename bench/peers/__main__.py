"""Runs the comparison with the alternatives. scripts/bench.sh --peers builds what it needs and
calls it."""

import argparse
import datetime
import json
import pathlib
import platform
import subprocess
import sys
import types

from bench.comparison.bench import complain, progress
from bench.comparison.cluster import SETTINGS
from bench.comparison.machine import commit, machine
from bench.comparison.run import run_of
from tests.support.subreaper import run_under_subreaper

from .contender import Absent
from .dbos_workflows import DbosWorkflows
from .guarded import Embedded, Guarded
from .idemlease import Idemlease
from .middleware import Middleware
from .packages import LeftOut, Packages
from .report import table
from .restate_ingress import RestateIngress
from .turns import Times, rounds, summary

IDEMLEASE = Idemlease()
CONTENDERS = [
    Guarded(), Embedded(), Middleware(), IDEMLEASE, RestateIngress(), DbosWorkflows(),
    Absent("diom", "Diom", "the registries carry its client libraries, not its server"),
]


def parse(arguments):
    known = [contender.key for contender in CONTENDERS]
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh --peers",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="""\
Measures the service beside alternatives, in turns, on one machine: calls without a key,
first calls, replays of distinct keys and of one hot key, at 1, 16 and 64 in flight. Those
that use Postgres share one server; each turn has a database of its own. Servers listen
on loopback only.""",
        epilog=f"""\
contenders: {', '.join(known)}

Exit status: 0 if every contender was measured or left out with a reason; 1 if one
failed; 2 for a bad argument.""")
    parser.add_argument("--quick", action="store_true", help="loads of 1 s in place of 3 s")
    parser.add_argument("--only", metavar="NAME,...", help="only these contenders")
    parser.add_argument("--json", metavar="FILE", help="write all numbers here")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (3)")
    parser.add_argument("--seconds", type=float, help="how long each load is measured")
    parser.add_argument("--no-install", action="store_true",
                        help="with the packages that are there already")
    parser.add_argument("--packages", default="build/peers", help="folder of the alternatives")
    parser.add_argument("--idemlease", metavar="FOLDER",
                        help="a source tree of the Go library idemlease, to measure it too")
    parser.add_argument("--binaries", default="build/release/bin", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    for name in (options.only or "").split(","):
        if name and name not in known:
            parser.error(f"unknown contender {name}; see --help")
    IDEMLEASE.source = options.idemlease
    options.seconds = options.seconds or (1.0 if options.quick else 3.0)
    if not 1 <= options.rounds <= 20:
        parser.error("--rounds takes 1 to 20")
    if not 0.1 <= options.seconds <= 60:
        parser.error("--seconds takes 0.1 to 60")
    return options


def prepared(bench, packages, contenders):
    """Those that can run, and the reasons of the others."""
    ready, left_out = [], {}
    for contender in contenders:
        try:
            contender.prepare(bench, packages)
            ready.append(contender)
        except LeftOut as reason:
            left_out[contender.key] = str(reason)
            bench.log(f"left out: {contender.title}: {reason}")
    return ready, left_out


def described(contender, bench, reports):
    return {"title": contender.title, "versions": contender.versions(bench),
            "settings": contender.settings, "durability": contender.durability,
            "not_comparable": contender.not_comparable, "loads": summary(reports),
            "rounds": reports}


def document(options, bench, times, results):
    """The result of the run, as the report reads it."""
    grpc = subprocess.run(["pkg-config", "--modversion", "grpc++"], capture_output=True, text=True,
                          check=False)
    ready, reports, left_out, failed = results
    titles = {contender.key: contender.title for contender in CONTENDERS}
    return {
        "contenders": {contender.key: described(contender, bench, reports[contender.key])
                       for contender in ready if contender.key not in failed},
        "left_out": {titles[key]: reason for key, reason in left_out.items()},
        "failed": {titles[key]: reason for key, reason in failed.items()},
        "run": {"at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "commit": commit(), "quick": options.quick, "rounds": options.rounds,
                "seconds": times.seconds, "keys": times.keys, "reply_bytes": 256},
        "postgres_settings": {name: value for name, value in SETTINGS.items()
                              if name in ("fsync", "synchronous_commit", "full_page_writes",
                                          "shared_buffers", "wal_compression")},
        "versions": {"postgres": bench.cluster.version(), "grpc": grpc.stdout.strip(),
                     "python": platform.python_version()},
    }


def measure(options, bench):
    wanted = [contender for contender in CONTENDERS
              if not options.only or contender.key in options.only.split(",")]
    packages = Packages(options.packages, not options.no_install)
    program = packages.go_program("load")
    ready, left_out = prepared(bench, packages, wanted)
    times = Times(warmup_s=0.3 if options.quick else 0.5, seconds=options.seconds,
                  keys=2_000 if options.quick else 10_000)
    reports, failed = rounds(bench, program, ready, times, options.rounds)
    return document(options, bench, times, (ready, reports, left_out, failed)), failed


def main():
    run_under_subreaper()
    options = parse(sys.argv[1:])
    facts = machine()
    try:
        with run_of(types.SimpleNamespace(profile=False), options.binaries,
                    "idempotency-peers.") as bench:
            result, failed = measure(options, bench)
    except LeftOut as reason:
        complain(f"the load program cannot be built: {reason}")
        sys.exit(1)
    result["machine"] = facts
    progress("\n" + table(result))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
        progress(f"all numbers: {options.json}")
    sys.exit(1 if failed else 0)


main()
