"""Measures the figures of the model and writes them with their commands.

  scripts/bench.sh --capacity       builds, and runs this
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
import types

from bench.comparison.machine import commit, machine
from bench.comparison.run import run_of
from tests.support.subreaper import run_under_subreaper

from .figures import DEFAULT, Figures

_BATCHES = (1, 4, 16, 64, 256)
# Of a daemon beside those of its queue, at most: docs/sizing.md.
_OTHER_SESSIONS = 3
_OUTPUT = re.compile(r"([\d.]+) cycles/s.*?(?:log ([\d.]+) bytes a cycle)?$")


def parse_output(text):
    """Cycles per second and WAL bytes per cycle (None without Postgres) of store_load."""
    found = _OUTPUT.search(text.strip())
    if found is None or float(found.group(1)) <= 0:
        raise ValueError(f"store_load wrote no rate: {text[:200]!r}")
    return float(found.group(1)), float(found.group(2)) if found.group(2) else None


def rising(points):
    """Times that never fall with the size: a larger batch that took less was measured by luck."""
    longest, kept = 0.0, []
    for size, us in sorted(points):
        longest = max(longest, us)
        kept.append([size, round(longest, 1)])
    return kept


class Measurement:
    """One run on the machine at hand."""

    def __init__(self, bench, seconds, rounds):
        self._bench, self._seconds, self._rounds = bench, seconds, rounds
        self.figures = {}

    def put(self, name, value, unit, command):
        self.figures[name] = {"value": value, "unit": unit, "command": command}
        self._bench.log(f"{name}: {value} {unit}")

    def _store_load(self, store, threads, batch):
        rates, wal = [], []
        for _ in range(self._rounds):
            done = subprocess.run(
                [self._bench.binary("store_load"), store, str(threads), str(batch),
                 str(self._seconds)], capture_output=True, text=True, check=True,
                timeout=self._seconds + 120)
            rate, bytes_each = parse_output(done.stdout)
            rates.append(rate)
            wal.append(bytes_each)
        return statistics.median(rates), wal[-1]

    def engine(self, name, store):
        command = f"store_load {store.partition(':')[0]}:... THREADS BATCH {self._seconds}"
        points, alone = [], {}
        for batch in _BATCHES:
            alone[batch], _ = self._store_load(store, 1, batch)
            points.append([batch, 1e6 * batch / alone[batch]])
        self.put(f"{name}_batch_us", rising(points), "us for a batch of so many cycles",
                 command.replace("THREADS BATCH", "1 {1,4,16,64,256}"))
        together, wal = self._store_load(store, 2, 64)
        self.put(f"{name}_parallel", round(max(1.0, min(2.0, together / alone[64])), 2),
                 "times the rate of one thread, with two",
                 command.replace("THREADS BATCH", "{1,2} 64"))
        return wal

    def row(self, database, wal):
        sizes = self._bench.cluster.sql(
            "SELECT (pg_table_size('idempotency.records') + pg_indexes_size('idempotency.records'))"
            " / count(*) FROM idempotency.records", database)
        self.put("row_bytes", int(sizes), "bytes of a completed record with its indexes",
                 "(pg_table_size + pg_indexes_size) / count(*) after store_load")
        self.put("wal_bytes", round(wal), "bytes of WAL for a cycle",
                 "store_load postgresql:... 2 64")

    def calls(self, daemon, charges):
        load = self._bench.load
        first = [load("charges", charges.guarded, key="fresh") for _ in range(self._rounds)]
        command = "idempotency-bench charges --key=fresh --in_flight=64, of a guarded server"
        for kind, name in (("idempotencyd", "daemon"), ("postgres", "postgres"),
                           ("charges", "guarded_server")):
            self.put(f"{name}_cpu_us",
                     round(statistics.median(report["cpu_us"][kind] for report in first), 1),
                     "us of CPU time for a first call", command)
        cycles = [load("cycles", daemon.address) for _ in range(self._rounds)]
        # Of a minute ago: older ones would have expired.
        keys = {"seed": 7, "first_key_ms": int(time.time() * 1000) - 60_000}
        load("cycles", daemon.address, pieces=5000, duration="60s", warmup="0s", **keys)
        replays = [load("replays", daemon.address, keys=5000, **keys) for _ in range(self._rounds)]
        rate = statistics.median(report["per_second"] for report in cycles)
        self.put("replay_work",
                 round(rate / statistics.median(report["per_second"] for report in replays), 3),
                 "cycles' work for a replay", "idempotency-bench cycles / replays, 64 in flight")
        return cycles

    def redis(self, port, daemon, memory):
        """`memory` returns the bytes of the server and the number of its keys."""
        empty, _ = memory(port)
        reports = [self._bench.load("cycles", daemon.address) for _ in range(self._rounds)]
        command = "idempotency-bench cycles --in_flight=64, on redis-server --appendfsync always"
        self.put("redis_per_second", round(statistics.median(
            report["per_second"] for report in reports), 1),
                 "cycles per second on one Redis", command)
        self.put("redis_cpu_us", round(statistics.median(
            report["cpu_us"]["redis"] for report in reports), 1),
                 "us of CPU time of Redis for a cycle; it has one thread for commands", command)
        used, keys = memory(port)
        self.put("redis_row_bytes", round((used - empty) / keys), "bytes of memory for a record",
                 "INFO memory: the growth of used_memory / DBSIZE after that")

    def verification(self, cycles, daemon):
        """Points that no other figure is made of: cycles through the whole service."""
        for crowd in (16, 64):
            reports = cycles if crowd == 64 else [
                self._bench.load("cycles", daemon.address, in_flight=crowd)
                for _ in range(self._rounds)]
            command = f"idempotency-bench cycles --in_flight={crowd}"
            self.put(f"verify_{crowd}_per_second",
                     round(statistics.median(report["per_second"] for report in reports), 1),
                     "cycles per second", command)
            self.put(f"verify_{crowd}_cpu_us",
                     round(statistics.median(
                         sum(report["cpu_us"].values()) for report in reports), 1),
                     "us of CPU time for a cycle, the load program's included", command)


def connections(bench):
    """Sessions of one daemon that has worked."""
    return int(bench.cluster.sql(
        "SELECT count(*) FROM pg_stat_activity WHERE datname LIKE 'bench%'"
        " AND backend_type = 'client backend'"))


def redis_memory(port):
    """Bytes used, and the number of keys."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"INFO memory\r\nDBSIZE\r\n")
        answer = b""
        while not re.search(rb"\r\n:\d+\r\n$", answer):
            part = connection.recv(65536)
            if not part:
                raise RuntimeError("Redis closed the connection")
            answer += part
    return (int(re.search(rb"used_memory:(\d+)", answer).group(1)),
            int(re.search(rb":(\d+)\r\n$", answer).group(1)))


def measure_redis(bench, run):
    """Nothing if the machine has no redis-server: the figures are then missing."""
    if shutil.which("redis-server") is None:
        bench.log("no redis-server: no figures of Redis")
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = bench.folder / "redis"
    folder.mkdir()
    server = bench.start("redis", [
        "redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save",
        "", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"])
    server.wait_for_line("eady to accept connections")
    daemon = bench.daemon(f"redis://127.0.0.1:{port}", flags=["--accept_empty_store"])
    run.redis(port, daemon, redis_memory)
    bench.stop_servers()


def measured(bench, options):
    run = Measurement(bench, options.seconds, options.rounds)
    run.put("cores", os.cpu_count() or 1, "processors of the machine", "nproc")
    database, store = bench.migrated_database()
    wal = run.engine("postgres", store)
    run.row(database, wal)
    bench.cluster.drop_database(database)
    run.engine("sqlite", f"sqlite:{bench.folder}/capacity.sqlite")
    daemon = bench.daemon()
    charges = bench.charges(daemon)
    cycles = run.calls(daemon, charges)
    sessions = connections(bench)
    queue = max(2, min(4, os.cpu_count() or 2))
    run.put("store_connections", queue, "sessions of a daemon's queue",
            "idempotencyd --store_connections, default")
    seen = max(0, sessions - queue)
    run.put("other_connections", max(seen, _OTHER_SESSIONS), "a daemon's other sessions, at most",
            f"docs/sizing.md; pg_stat_activity of a loaded daemon had {seen}")
    run.verification(cycles, daemon)
    bench.stop_servers()
    measure_redis(bench, run)
    return run.figures


def main():
    run_under_subreaper()
    parser = argparse.ArgumentParser(prog="scripts/bench.sh --capacity",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, default=DEFAULT, help="write the figures here")
    parser.add_argument("--seconds", type=int, default=3, help="how long each is measured (3)")
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many counts (3)")
    parser.add_argument("--binaries", default="build/release/bin", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not 1 <= options.seconds <= 60 or not 1 <= options.rounds <= 20:
        parser.error("--seconds takes 1 to 60, --rounds 1 to 20")
    facts = machine()
    settings = types.SimpleNamespace(profile=False, seconds=options.seconds, warmup=0.5)
    with run_of(settings, options.binaries, "idempotency-capacity.") as bench:
        figures = measured(bench, options)
        document = {"figures": figures, "machine": facts,
                    "run": {"at": datetime.date.today().isoformat(), "commit": commit(),
                            "postgres": bench.cluster.version(), "seconds": options.seconds,
                            "rounds": options.rounds,
                            "load_average_before": round(facts["load_average_before"], 1)}}
    Figures(document)
    options.json.write_text(json.dumps(document, indent=1) + "\n")
    print(f"wrote {options.json}; now: python3 -m bench.capacity")


if __name__ == "__main__":
    sys.exit(main())
