"""What a call costs directly, through Envoy, and through Envoy with idempotencyd: a first call and a
replay. In each round every case has a turn, so that a busy machine affects all of them alike.

    python3 -m bench.envoy [--rounds=5] [--seconds=3] [--in_flight=64] [--binaries=DIR] [--json=FILE]

Postgres is private, and every commit is flushed. `cycle` is a reservation and a completion at
idempotencyd alone: the two commits of a first call, with their round trips. `commits` are two commits
of pgbench, from one client: the floor."""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from bench.comparison.cluster import Cluster
from bench.comparison.floor import Floor
from bench.comparison.process import Process
from tests.envoy import envoy
from tests.envoy.held_port import HeldPort
from tests.support.subreaper import run_under_subreaper

METHOD = "charges.v1.Charges/Charge"
CONFIG = f"""external_processor {{
  namespace: "bench"
  on_unknown_outcome: LEASE_EXPIRY_REQUIRE_RECOVERY
  scope {{ shared: "bench" }}
  grpc_methods {{ name: "{METHOD}" }}
}}
identities {{ name: "load" local: true }}
rules {{ identity: "load" namespaces: "bench" permissions: [WRITE] }}
"""
KEYS = 5_000
# The load program checks that a first call is none of a replay, and the other way round.
CASES = ("direct", "envoy", "first", "replay", "cycle")


class Bed:
    """All processes, on one machine."""

    def __init__(self, stack, options, folder):
        self._options = options
        self._folder = folder
        binaries = options.binaries
        database = Cluster(folder / "postgres")
        stack.callback(database.stop)
        store = database.url(database.new_database())
        self._floor = Floor(database, folder)
        subprocess.run([binaries / "idempotencyd", "migrate", f"--store={store}"], check=True,
                       capture_output=True)
        self._charges = self._start(stack, "charges", [binaries / "charges_server"])
        upstream = self._charges.wait_for_line("charges: serving on ")
        self._upstream = upstream.split("serving on ")[1].split()[0].rstrip(",")
        port = HeldPort()
        stack.callback(port.close)
        (folder / "idempotencyd.textproto").write_text(CONFIG)
        daemon = self._start(stack, "idempotencyd", [
            binaries / "idempotencyd", "serve", "--listen=127.0.0.1:0", "--metrics=",
            f"--ext_proc={port.address}", f"--store={store}",
            f"--config={folder}/idempotencyd.textproto"])
        self._daemon = daemon.wait_for_line("serving on ").split("serving on ")[1].split(",")[0].split()[0]
        os.environ["IDEMPOTENCY_BUILD"] = str(binaries.parent)
        # The same Envoy with and without the filter on the method's route.
        self._plain, self._guarded = (
            stack.enter_context(envoy.Envoy(envoy.configuration(
                f"--methods={method}", f"--upstream={self._upstream}",
                f"--processor={port.address}"))) for method in ("another.v1.Service/Method", METHOD))
        self._keys = {"seed": int(time.time()) % 10**9 + 1,
                      "first_key_ms": int(time.time() * 1000) - 60_000}
        done = self._load("charges", self._guarded.address, key="fresh", pieces=KEYS,
                          in_flight=32, duration="120s", warmup="0s", **self._keys)
        if done["ended"] != KEYS:
            raise RuntimeError(f"of {KEYS} keys {done['ended']} were completed: {done}")

    def _start(self, stack, name, command):
        process = Process([str(one) for one in command], self._folder / f"{name}.log")
        stack.callback(process.stop)
        return process

    def _load(self, command, target, **flags):
        flags.setdefault("duration", f"{self._options.seconds}s")
        done = subprocess.run(
            [self._options.binaries / "idempotency-bench", command, f"--target={target}",
             *(f"--{name}={value}" for name, value in flags.items())],
            capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{command} {flags}: {done.stdout}{done.stderr}")
        report = json.loads(done.stdout.splitlines()[-1])
        if report["failures"]:
            raise RuntimeError(f"{command} {flags}: {report}")
        return report

    def two_commits_us(self):
        return self._floor.lone_median_us(self._options.seconds)

    def turn(self, case, in_flight):
        if case == "cycle":
            return self._load("cycles", self._daemon, in_flight=in_flight)
        if case == "direct":
            return self._load("charges", self._upstream, in_flight=in_flight)
        if case == "envoy":
            return self._load("charges", self._plain.address, in_flight=in_flight)
        if case == "first":
            return self._load("charges", self._guarded.address, in_flight=in_flight, key="fresh")
        return self._load("charges", self._guarded.address, in_flight=in_flight, key="replayed",
                          keys=KEYS, **self._keys)


def measure(bed, options):
    """Reports by (case, calls in flight), one of each round, and the median of two commits."""
    reports, commits = {}, []
    for number in range(options.rounds):
        commits.append(bed.two_commits_us())
        for in_flight in (1, options.in_flight):
            for case in CASES:
                reports.setdefault((case, in_flight), []).append(bed.turn(case, in_flight))
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    return reports, statistics.median(commits)


def median(reports, field):
    return statistics.median(report[field] for report in reports)


def table(reports, commits_us, in_flight):
    """Markdown: a row for each case. Differences are taken within each round."""
    lines = [f"| | median, one call at a time | p99 | over Envoy alone | calls per second, {in_flight} in "
             "flight |", "|---|---|---|---|---|"]
    names = {"direct": "direct", "envoy": "through Envoy", "first": "through Envoy, guarded: first call",
             "replay": "through Envoy, guarded: replay",
             "cycle": "`idempotencyd` alone: reservation and completion"}
    for case in CASES:
        alone, crowd = reports[case, 1], reports[case, in_flight]
        added = ""
        if case in ("first", "replay"):
            added = f"{statistics.median(one['p50_us'] - other['p50_us'] for one, other in zip(alone, reports['envoy', 1])) / 1000:.2f} ms"
        lines.append(f"| {names[case]} | {median(alone, 'p50_us') / 1000:.2f} ms | "
                     f"{median(alone, 'p99_us') / 1000:.2f} ms | {added} | "
                     f"{median(crowd, 'per_second'):,.0f} |")
    lines.append(f"| two commits of pgbench, one client | {commits_us / 1000:.2f} ms | | | |")
    return "\n".join(lines)


def main():
    run_under_subreaper()
    parser = argparse.ArgumentParser(prog="python3 -m bench.envoy")
    parser.add_argument("--binaries", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--in_flight", type=int, default=64)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.binaries = options.binaries.resolve()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        os.chmod(folder, 0o711)
        reports, commits_us = measure(Bed(stack, options, pathlib.Path(folder)), options)
    print(table(reports, commits_us, options.in_flight))
    if options.json:
        options.json.write_text(json.dumps(
            {"two_commits_us": commits_us,
             **{f"{case} {count}": found for (case, count), found in reports.items()}}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
