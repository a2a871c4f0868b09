"""What a guard adds to a call whose handler makes one commit, on disks of a given speed.

    python3 -m bench.exactly_once --sync_ms=2 [--calls=300] [--rounds=3] [--binaries=DIR]

Postgres of the service and Postgres of the application are two servers; `slow_sync.c`, built with
the system's compiler, makes each fsync and fdatasync of theirs slower. Cases take turns, so that a
busy machine affects all of them alike."""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile

from bench.comparison.cluster import Cluster
from bench.comparison.process import Process
from tests.support.subreaper import run_under_subreaper

_LEDGER = pathlib.Path("interceptors/server/ledger/migrations/postgres/001_completions.up.sql")
_HERE = pathlib.Path(__file__).parent


class SlowCluster(Cluster):
    """Its syncs take `prefix`'s time longer. It keeps no old WAL files: a measure is short."""

    def __init__(self, folder, prefix):
        self.prefix = prefix
        super().__init__(folder, wal_files=0)


def build_slow_sync(folder):
    library = folder / "slow_sync.so"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library),
                    str(_HERE / "slow_sync.c"), "-ldl"], check=True)
    library.chmod(0o755)
    return library


def measure(binaries, folder, options):
    slow = ["env", f"LD_PRELOAD={build_slow_sync(folder)}",
            f"SLOW_SYNC_US={round(options.sync_ms * 1000)}"]
    service, application = (SlowCluster(folder / name, slow) for name in ("service", "application"))
    daemon = None
    try:
        application.sql("CREATE TABLE charges (account text, cents bigint);"
                        + _LEDGER.read_text(encoding="utf-8"))
        store = service.url("postgres")
        subprocess.run([str(binaries / "idempotencyd"), "migrate", f"--store={store}"], check=True,
                       stdout=subprocess.DEVNULL)
        socket = folder / "idempotencyd.sock"
        daemon = Process([str(binaries / "idempotencyd"), "serve", f"--listen=unix:{socket}",
                          f"--store={store}", "--metrics="], folder / "idempotencyd.log")
        daemon.wait_for_line("serving on")
        cases = {"unguarded": [], "guarded": [f"--idempotencyd=unix:{socket}"],
                 "guarded, relaxed": [f"--idempotencyd=unix:{socket}", "--relaxed"]}
        command = [str(binaries / "exactly-once"), f"--database={application.url('postgres')}",
                   f"--calls={options.calls}"]
        medians = {name: [] for name in cases}
        for _ in range(options.rounds):
            for name, flags in cases.items():
                done = subprocess.run([*command, *flags], check=True, capture_output=True,
                                      text=True, timeout=300)
                medians[name].append(float(done.stdout.splitlines()[-1].split()[0]))
        return {name: statistics.median(values) for name, values in medians.items()}
    finally:
        for part in (daemon, service, application):
            if part is not None:
                part.stop()


def main():
    parser = argparse.ArgumentParser(prog="python3 -m bench.exactly_once")
    parser.add_argument("--sync_ms", type=float, required=True)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--binaries", default="build/release/bin", type=pathlib.Path)
    options = parser.parse_args()
    run_under_subreaper()
    with tempfile.TemporaryDirectory(prefix="exactly-once.") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)  # Postgres runs as another user.
        medians = measure(options.binaries, folder, options)
    floor = medians["unguarded"]
    for name, median in medians.items():
        print(f"{name:18} {median / 1000:7.2f} ms  added {(median - floor) / 1000:6.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
