"""The floor of every measure that writes: pgbench with two commits per cycle."""

import pathlib
import re
import statistics
import subprocess
import time

_TABLE = """
DROP TABLE IF EXISTS floor_records;
CREATE TABLE floor_records (
  id uuid PRIMARY KEY,
  token bigint NOT NULL,
  state smallint NOT NULL,
  fingerprint bytea NOT NULL,
  created_at timestamptz NOT NULL,
  lease_until timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  completed_at timestamptz,
  reply bytea
) WITH (fillfactor = 28);  -- the completed row fits beside the reserved one: HOT
"""

# A library would make sure that no plan is made while the table is empty and then kept.
_OPTIONS = "-c enable_seqscan=off -c plan_cache_mode=force_generic_plan"


class Floor:
    """Two statements and two commits per cycle, prepared, from `clients` connections."""

    def __init__(self, cluster, folder, reply_bytes=256):
        self._cluster = cluster
        self._folder = pathlib.Path(folder)
        self._database = cluster.new_database()
        template = pathlib.Path(__file__).with_name("floor.sql").read_text()
        self._script = self._folder / "floor.sql"
        self._script.write_text(template.replace("@REPLY@", "5a" * reply_bytes))
        self._runs = 0
        cluster.sql(_TABLE, self._database)

    def _run(self, clients, seconds, *arguments):
        self._runs += 1
        # Time-ordered across runs too: 2**20 cycles per client and millisecond
        # would have to pass before two runs meet.
        base = (int(time.time() * 1000) << 16) % (1 << 62)
        command = self._cluster.pgbench_command(
            self._database, "-n", "-M", "prepared", "-c", str(clients), "-j",
            str(min(clients, 2)), "-T", str(seconds), "-D", f"base={base}", "-D", "n=0",
            "-f", str(self._script), *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60,
                              check=False, env={"PGOPTIONS": _OPTIONS, "PATH": "/usr/bin:/bin"})
        if done.returncode != 0:
            raise RuntimeError(f"pgbench failed: {done.stderr.strip()[-2000:]}")
        return done.stdout + done.stderr

    def cycles_per_second(self, seconds, clients=64):
        """After a first second, in which connections are made and plans cached."""
        output = self._run(clients, max(seconds, 2) + 1, "-P", "1")
        rates = [float(rate) for rate in re.findall(r"^progress: .* s, ([\d.]+) tps", output, re.M)]
        if len(rates) < 2:
            raise RuntimeError(f"pgbench reported no progress:\n{output[-2000:]}")
        return statistics.fmean(rates[1:])

    def lone_median_us(self, seconds):
        """Of a single client."""
        prefix = self._folder / f"pgbench-{self._runs}"
        self._run(1, seconds, "-l", f"--log-prefix={prefix}")
        latencies = []
        for log in self._folder.glob(prefix.name + ".*"):
            latencies += [int(line.split()[2]) for line in log.read_text().splitlines()]
            log.unlink()
        return statistics.median(latencies)
