"""The tools of the measures: processes, load, floors."""

import json
import pathlib
import resource
import subprocess
import sys

from .cluster import WAL_FILES, Cluster
from .counts import SystemCalls, voluntary_switches
from .ctl import Idempotencyctl
from .floor import Floor
from .process import Process, cpu_seconds
from .profile import Profile


class Daemon:
    """An idempotencyd, with its address and the location of its store."""

    def __init__(self, process, store, database=None):
        line = process.wait_for_line("idempotencyd: serving on ")
        self.process = process
        self.address = line.split("serving on ")[1].split(",")[0]
        self.store = store
        self.database = database


class Charges:
    """A Charges server: its bare address and, if it has one, its guarded one."""

    def __init__(self, process):
        line = process.wait_for_line("charges: serving on ")
        self.process = process
        self.bare = line.split("serving on ")[1].split(",")[0]
        self.guarded = line.split("guarded on ")[1] if "guarded on" in line else None


class Bench:
    """One run of the comparison. close() ends every process that it started."""

    def __init__(self, options, folder, binaries, wal_files=WAL_FILES):
        self.options = options
        self.folder = pathlib.Path(folder)
        self._binaries = pathlib.Path(binaries)
        self._processes = []
        self._started = 0
        self._cluster = None
        self._wal_files = wal_files
        # Whether a measure was selected, by its key.
        self.wants = lambda key: True

    def close(self):
        self.stop_servers()
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None

    @property
    def cluster(self):
        if self._cluster is None:
            self.log("starting Postgres")
            self._cluster = Cluster(self.folder / "postgres", self._wal_files)
        return self._cluster

    def log(self, text):
        print(f"    {text}", flush=True)

    def start(self, name, command, stdin=subprocess.DEVNULL):
        """A process that stop_servers() ends; its times count under `name`."""
        self._started += 1
        process = Process(command, self.folder / f"{self._started:03}-{name}.log", stdin=stdin)
        self._processes.append(process)
        return process

    def stop(self, *servers):
        for server in servers:
            server.process.stop()
            self._processes.remove(server.process)

    def stop_servers(self):
        """All but Postgres."""
        for process in reversed(self._processes):
            process.stop()
        self._processes.clear()

    def binary(self, name):
        return str(self._binaries / name)

    def daemon(self, store=None, flags=()):
        """On a fresh database of the cluster, unless a store is named."""
        database = None
        if store is None:
            database, store = self.migrated_database()
        process = self.start("idempotencyd", [
            self.binary("idempotencyd"), "serve", f"--store={store}", "--listen=127.0.0.1:0",
            "--metrics=127.0.0.1:0", "--log_level=warn", *flags])
        return Daemon(process, store, database)

    @property
    def ctl(self):
        return Idempotencyctl(self.binary("idempotencyctl"), self.folder)

    def sqlite_daemon(self):
        self._started += 1
        return self.daemon(f"sqlite:{self.folder}/records-{self._started}.db")

    def migrated_database(self):
        """A new one of the cluster: its name and its address."""
        database = self.cluster.new_database()
        store = self.cluster.url(database)
        subprocess.run([self.binary("idempotencyd"), "migrate", f"--store={store}"],
                       check=True, capture_output=True, timeout=60)
        return database, store

    def charges(self, daemon=None, **flags):
        preload = getattr(self.options, "preload", None)
        command = ["env", f"LD_PRELOAD={preload}"] if preload else []
        command.append(self.binary("charges_server"))
        if daemon is not None:
            command.append(f"--idempotencyd={daemon.address}")
        command += [f"--{name}={value}" for name, value in flags.items()]
        return Charges(self.start("charges", command))

    def floor(self):
        return Floor(self.cluster, self.folder)

    def load(self, command, target, during=None, count_calls=False, **flags):
        """Runs the load generator to its end and returns its report.

        `during` is called once while it runs. The CPU time and the voluntary context
        switches per piece of the load generator, of the servers' processes and of Postgres are
        added; with `count_calls` the servers' system calls too, which slows them down.
        """
        flags.setdefault("duration", f"{self.options.seconds}s")
        flags.setdefault("warmup", f"{self.options.warmup}s")
        arguments = [f"--{name}={value}" for name, value in flags.items()]
        before, switches = self.cpu_seconds(), self._switches()
        calls = None
        if count_calls:
            calls = SystemCalls([process.pid for process in self._processes], self.folder)
        profile = Profile(self.folder) if self.options.profile else None
        process = subprocess.Popen(
            [self.binary("idempotency-bench"), command,
             f"--target={target}", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True)
        try:
            if during is not None:
                during()
            out, err = process.communicate(timeout=300)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
            if profile is not None:
                profile.stop()
            counted = {} if calls is None else calls.stop()
        if process.returncode != 0:
            raise RuntimeError(f"idempotency-bench {command}: {err.strip()}")
        report = json.loads(out)
        if report.get("failures"):
            raise RuntimeError(f"idempotency-bench {command}: {report['failures']} failures, "
                               f"the first: {report['first_failure']}")
        if report.get("ended"):
            report["cpu_us"] = {
                name: round(1e6 * (seconds - before.get(name, 0)) / report["ended"], 1)
                for name, seconds in self.cpu_seconds().items()}
            report["switches"] = {
                name: round((number - switches.get(name, 0)) / report["ended"], 2)
                for name, number in self._switches().items()}
            report["system_calls"] = self._by_kind(
                {pid: round(number / report["ended"], 1) for pid, number in counted.items()})
        if profile is not None:
            report["profile_us"] = profile.micros(self._kinds(process.pid), report["ended"])
            for what, micros in report["profile_us"].items():
                self.log(f"  {micros:7.1f} us  {what}")
        return report

    def _switches(self):
        """By kind of process, so far."""
        switches = self._by_kind({process.pid: voluntary_switches(process.pid)
                                  for process in self._processes})
        switches["load"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw
        if self._cluster is not None:
            switches["postgres"] = self._cluster.voluntary_switches()
        return switches

    def _by_kind(self, numbers):
        """Sums of the servers' numbers, which are by pid."""
        sums = {}
        for process in self._processes:
            if process.pid in numbers:
                kind = process.log.stem.partition("-")[2]
                sums[kind] = sums.get(kind, 0) + numbers[process.pid]
        return sums

    def _kinds(self, load):
        """The kind of each process, by its pid."""
        kinds = {process.pid: process.log.stem.partition("-")[2] for process in self._processes}
        kinds[load] = "load"
        if self._cluster is not None:
            kinds.update(dict.fromkeys(self._cluster.pids(), "postgres"))
        return kinds

    def cpu_seconds(self):
        """Seconds by kind of process, so far."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = {"load": children.ru_utime + children.ru_stime}
        for process in self._processes:
            kind = process.log.stem.partition("-")[2]
            used[kind] = used.get(kind, 0) + cpu_seconds(process.pid)
        if self._cluster is not None:
            used["postgres"] = self._cluster.cpu_seconds()
        return used


def progress(text):
    print(text, flush=True)


def complain(text):
    print(text, file=sys.stderr, flush=True)
