"""Runs a chaos campaign (docs/testing.md, "Chaos"): starts a whole system, injects faults into its
processes and links, lets it settle, and checks every promise against the logs. --quick takes ten
minutes at most, --nightly about an hour. scripts/chaos.sh builds what it needs and calls it."""

import argparse
import dataclasses
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tests.chaos.checker.checker import check
from tests.chaos.checker.coverage import Thresholds
from tests.support.subreaper import run_under_subreaper

from .build_faults import BuildFaults
from . import profiles
from .builds import Builds
from .certificate_faults import CertificateFaults
from .clock_faults import ClockFaults
from .hostile_faults import HostileFaults
from .journal import Journal
from .link_faults import LinkFaults
from .process_faults import ProcessFaults
from .progress import Progress
from .small_disk import unshare_mounts
from .system import Layout, System
from .turns import Turns

_LEASE_MS = 1000
# The extension by running handlers' heartbeats.
_MAX_LEASE_MS = 1500
_RAW_LEASE_MS = 2000
# These reach the calls of one process only, and so few of them.
_OFTEN = ("kill_daemon", "kill_bank", "stop_bank")
# After attempts that ended without a known outcome (interceptors/server/policy/unknown_outcome.h).
_LONGEST_PAUSE_S = 60

# A round of every kind of fault takes three to four minutes.
_SECONDS = {"smoke": 8, "quick": 400, "nightly": 3000}
# The time under load before the schema is migrated the first time: daemons of an earlier
# version do not run longer than that.
_EARLIER_S = 5
_THRESHOLDS = {
    "smoke": Thresholds(verdicts=("reserved", "replay", "in_flight", "mismatch"), per_verdict=5,
                        ok_share=0.4, per_fault_phase=0, faults=("kill_bank", "kill_daemon")),
    "quick": Thresholds(per_fault_phase=1, rare_share=0.05),
    "nightly": Thresholds(per_fault_phase=20, rare_share=0.05),
}


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/chaos.sh",
        description="""\
Starts a whole system on this machine (Postgres with a synchronous standby, daemons,
guarded servers, clients), injects faults into processes and links for a while, lets it settle, and
checks every promise against the logs.""",
        epilog="Exit status: 0 if every promise was kept and the run had enough faults to judge, "
               "1 if not, 2 for a bad argument or a run that failed.")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--smoke", action="store_const", const="smoke", dest="length",
                        help="half a minute: a check of the campaign itself")
    length.add_argument("--quick", action="store_const", const="quick", dest="length",
                        help="ten minutes at most (default)")
    length.add_argument("--nightly", action="store_const", const="nightly", dest="length",
                        help="about an hour")
    parser.add_argument("--profile", default="default", choices=profiles.names(),
                        help="the system, its faults and its promises")
    parser.add_argument("--seconds", type=int, help="duration of the faults")
    parser.add_argument("--seed", type=int, help="seed of the calls and the faults (a random one)")
    parser.add_argument("--json", metavar="FILE", help="write the report there")
    parser.add_argument("--keep", action="store_true", help="keep the logs of a successful run too")
    parser.add_argument("--no-previous", action="store_const", const=None, dest="previous",
                        help="without earlier builds of the daemon")
    parser.add_argument("--previous", default="build/previous", help=argparse.SUPPRESS)
    parser.add_argument("--binaries", default="build/release/bin", help=argparse.SUPPRESS)
    parser.set_defaults(length="quick", previous="build/previous")
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 31)
    options.seconds = options.seconds or _SECONDS[options.length]
    return options


def raise_file_limit():
    """A burst of connections takes more descriptors than a program has by default."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def bound(seconds):
    """Makes this thread stop after `seconds`, or on a signal to end: then all is stopped."""
    def give_up(number, _):
        raise RuntimeError("took too long" if number == signal.SIGALRM else "was stopped by a signal")
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, give_up)
    signal.alarm(seconds)


def log(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def break_it(system, journal, options):
    """Faults for the requested time; returns once every fault is over, with the kinds that
    must have happened, and those that could not (by kind, the reason)."""
    draws = random.Random(options.seed)

    def generator():
        return random.Random(draws.random())

    links = LinkFaults(system, journal, generator())
    processes = ProcessFaults(system, journal, generator(), _LEASE_MS / 1000)
    builds = BuildFaults(system, journal, generator())
    turns = Turns([processes, builds,
                   *(faults(system, journal, generator(), links)
                     for faults in system.profile.faults),
                   ClockFaults(system, journal, generator()),
                   CertificateFaults(system, journal, generator()),
                   HostileFaults(system, journal, generator(), links)],
                  generator(), often=_OFTEN)
    until = time.monotonic() + options.seconds
    if options.length == "smoke":
        time.sleep(1)
        processes.kill_bank()
        processes.kill_daemon()
    links.start()
    try:
        if options.length != "smoke":
            time.sleep(_EARLIER_S)
            if system.records.has_schema:
                builds.migrate_under_load()
        turns.run(until, after_each=Progress(log, journal, options.seconds))
    finally:
        links.stop()
    system.links.command("heal *")
    system.wait_until_healthy()
    died = system.dead()
    if died:
        raise RuntimeError(f"ended by themselves: {', '.join(died)}")
    journal.phase("faults_ended")
    return [*links.kinds, *turns.kinds], turns.impossible


def _settle_within(options):
    """Seconds: every record of the run is read."""
    return 100 + _LONGEST_PAUSE_S + options.seconds // 5


def campaign(system, journal, options):
    journal.write("run", seed=options.seed, lease_ms=_RAW_LEASE_MS,
                  retention_ms=24 * 3600 * 1000, slack_ms=50,
                  pause_ms=_LONGEST_PAUSE_S * 1000, **system.profile.run_fields())
    log(f"starting, with seed {options.seed}")
    system.start()
    log(f"breaking it for {options.seconds} s")
    kinds, impossible = break_it(system, journal, options)
    log(f"{journal.faults} faults; settling")
    for line in system.settle(_settle_within(options)):
        log(line)
    now = time.monotonic_ns()
    for row in system.effects():
        journal.write("effect", t=now, ledger=True, **row)
    return kinds, impossible


def run(options, folder, no_disks):
    """The checker's report, with further entries."""
    # Starting, settling and the faults; checking is not counted.
    bound(options.seconds + 40 + _settle_within(options))
    smoke = options.length == "smoke"
    profile = profiles.load(options.profile)
    # Earlier builds know the Postgres store only.
    earlier = None if smoke or not profile.records.has_schema else options.previous
    builds = Builds(f"{options.binaries}/idempotencyd", earlier)
    system = System(folder, options.binaries, builds,
                    Layout(callers=8, raw=1) if smoke else Layout(), options.seed, _LEASE_MS,
                    no_disks, profile)
    journal = Journal(system.logs / "orchestrator.jsonl")
    try:
        kinds, impossible = campaign(system, journal, options)
    finally:
        signal.alarm(0)
        system.stop()
        journal.close()
    log("checking")
    thresholds = _THRESHOLDS[options.length]
    if not smoke:
        thresholds = dataclasses.replace(thresholds, faults=tuple(kinds))
    return (check(str(system.logs), thresholds, 2, scratch=str(folder)),
            {"faults_not_possible": impossible, "builds": builds.to_json()})


def main():
    options = parse(sys.argv[1:])
    run_under_subreaper()
    raise_file_limit()
    began = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="chaos."))
    os.chmod(folder, 0o711)  # Postgres runs as another user
    no_disks = unshare_mounts()
    try:
        report, more = run(options, folder, no_disks)
    except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"the run failed: {error}\nits logs: {folder}", file=sys.stderr)
        return 2
    except BaseException:
        print(f"its logs: {folder}", file=sys.stderr)
        raise
    result = {**report.to_json(), **more, "profile": options.profile, "seconds": round(time.monotonic() - began),
              "length": options.length, "passed": report.passed}
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n",
                                              encoding="utf-8")
    for name, what in more["builds"].items():
        print(f"{name} build: {what}")
    for kind, why in more["faults_not_possible"].items():
        print(f"not possible here: {kind}: {why}")
    print(report.text())
    if report.passed and not options.keep:
        shutil.rmtree(folder)
    else:
        print(f"its logs: {folder}")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
