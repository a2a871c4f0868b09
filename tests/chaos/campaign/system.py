"""The system under faults: Postgres, daemons, guarded servers, clients, and their links."""

import json
import pathlib
import signal
import subprocess
import threading
import time

from bench.comparison.process import Process
from tests.chaos.proxy.chaos_proxy_process import ChaosProxy

from .authority import Authority
from .postgres_node import WAL_DISK_MB, PostgresNode
from .postgres_pair import PostgresPair
from .profiles import Profile
from .records.records import ANY_PORT
from .shifted_clock import ShiftedClock
from .small_disk import SmallDisk

# File descriptors of a daemon: few enough for a burst of connections to take them all.
_DAEMON_FILES = 640
# One replica sweeps at a time.
_SWEEP_INTERVAL = "1s"
_LEDGER_TABLE = "interceptors/server/ledger/migrations/postgres/001_completions.up.sql"
_EFFECTS_TABLE = """
CREATE TABLE effects (namespace text, scope text, operation text, key text, attempt bigint,
                      server text, reply text)"""
_EFFECTS = """
SELECT json_build_object('record', json_build_array(namespace, scope, operation, key),
                         'attempt', attempt, 'server', server, 'reply', reply)
  FROM effects"""


class Layout:
    """How many there are of each. The first `ledgers` banks have the completion ledger."""

    def __init__(self, daemons=2, banks=3, ledgers=2, clients=2, callers=40, raw=3):
        self.daemons = range(1, daemons + 1)
        self.banks = range(1, banks + 1)
        self.ledgers = range(1, ledgers + 1)
        self.clients = range(1, clients + 1)
        self.callers = callers
        self.raw = raw


class Links:
    """The proxy's links, by their names. Thread-safe."""

    def __init__(self, binary, folder, layout, seed, more):
        """`more` as Records.targets()."""
        self._lock = threading.Lock()
        sockets = [folder / f"pg{n}" / ".s.PGSQL.5432" for n in (0, 1)]
        links = {f"replication{n}": sockets[1 - n] for n in (0, 1)}
        for n in (0, 1):
            links.update({f"bank{b}-pg{n}": sockets[n] for b in layout.ledgers})
        for d in layout.daemons:
            callers = ([f"bank{b}" for b in layout.banks]
                       + [f"client{c}" for c in layout.clients])
            links.update({f"{caller}-daemon{d}": folder / f"daemon{d}.sock"
                          for caller in callers})
        for b in layout.banks:
            links.update({f"client{c}-bank{b}": folder / f"bank{b}.sock" for c in layout.clients})
        links = {**{name: (ANY_PORT, f"unix:{target}") for name, target in links.items()}, **more}
        self._proxy = ChaosProxy(binary, links, seed)
        self.names = sorted(links)

    def address(self, name):
        return self._proxy.addresses[name]

    def port(self, name):
        return self.address(name).rpartition(":")[2]

    def command(self, line):
        with self._lock:
            self._proxy.command(line)

    def fired(self, name):
        with self._lock:
            return self._proxy.stats(name)["fired"]

    def close(self):
        self._proxy.close()


class System:
    """Every process. start(), then break it, then stop()."""

    def __init__(self, folder, binaries, builds, layout, seed, lease_ms, no_disks=None,
                 profile=Profile()):
        """`no_disks` is the reason why no small disks can be mounted; None: they are."""
        self.profile = profile
        self.folder = pathlib.Path(folder)
        self.logs = self.folder / "logs"
        self.logs.mkdir()
        self.layout = layout
        self.seed = seed
        self._lease_ms = lease_ms
        self._binaries = pathlib.Path(binaries)
        self.builds = builds
        # The build from which daemons are started.
        self.daemon_build = builds.earlier or builds.current
        self.no_disks = no_disks
        self.authority = Authority(self.folder / "certificates")
        self.records = profile.records(self.folder, layout.daemons)
        self.links = Links(str(self._binaries / "chaos-proxy"), self.folder, layout, seed,
                           self.records.targets())
        self._disks = [None, None]
        if no_disks is None:
            self._disks = [SmallDisk(self.folder / f"pg{n}-disk", WAL_DISK_MB) for n in (0, 1)]
        self.postgres = PostgresPair([
            PostgresNode(self.folder, n, ("127.0.0.1", self.links.port(f"replication{n}")),
                         self._disks[n])
            for n in (0, 1)])
        self.processes = {}
        # The newest history of each process that writes one.
        self.histories = {}
        self._starts = {}

    # Postgres

    def _start_postgres(self):
        self.postgres.begin()
        primary = self.postgres.primary
        primary.sql("CREATE DATABASE idem")
        primary.sql("CREATE DATABASE app")
        primary.sql(pathlib.Path(_LEDGER_TABLE).read_text(encoding="utf-8") + _EFFECTS_TABLE, "app")
        if self.records.has_schema:
            self.migrate(self.daemon_build)
        self.postgres.attach_standby()

    def migrate(self, build):
        """Returns `migrate`'s report."""
        host = str(self.postgres.primary.folder).replace("/", "%2F")
        return self._migrate(build, f"postgresql://postgres@/idem?host={host}")

    @staticmethod
    def _migrate(build, store):
        done = subprocess.run([str(build.program), "migrate", f"--store={store}"],
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"migrate of {build.what} failed: {done.stderr.strip()}")
        return done.stdout

    def _hosts(self, name):
        return ",".join(f"127.0.0.1:{self.links.port(f'{name}-pg{n}')}" for n in (0, 1))

    def effects(self):
        """The rows of the application's own table."""
        rows = self.postgres.primary.sql(_EFFECTS, "app")
        return [json.loads(row) for row in rows.splitlines()]

    # Processes

    def names(self, kind):
        """For example of all daemons."""
        return sorted(name for name in self.processes if name.startswith(kind))

    def socket(self, name):
        return self.folder / f"{name}.sock"

    def program(self, name):
        """The process of that name."""
        return pathlib.Path(f"/proc/{self.processes[name].pid}/exe").resolve()

    def _start(self, name, command, clock=None, files=None, **options):
        self._starts[name] = self._starts.get(name, 0) + 1
        log = self.folder / f"{name}-{self._starts[name]:02}.log"
        prefix = [] if files is None else ["prlimit", f"--nofile={files}:{files}"]
        prefix += [] if clock is None else clock.prefix
        self.processes[name] = Process([*prefix, *command], log, **options)
        return self.processes[name]

    def _history(self, name, what="history"):
        return self.logs / f"{name}-{self._starts.get(name, 0) + 1:02}-{what}.jsonl"

    def _credentials(self, name):
        return [f"--tls_cert={self.authority.certificate(name)}",
                f"--tls_key={self.authority.key(name)}"]

    def _callers_credentials(self, name):
        """Each start has a certificate of its own."""
        self.authority.issue(name)
        return [f"--tls_ca={self.authority.bundle}", *self._credentials(name)]

    def start_daemon(self, number, clock=None):
        name = f"daemon{number}"
        self._start(name, [str(self.daemon_build.program), "serve",
                           f"--listen=unix:{self.socket(name)}",
                           f"--store={self.records.url(name)}",
                           *self._daemon_flags(),
                           "--metrics=", "--drain_timeout=3s",
                           f"--sweep_interval={_SWEEP_INTERVAL}", *self._credentials(name),
                           f"--tls_client_ca={self.authority.bundle}"],
                    clock, _DAEMON_FILES).wait_for_line("serving on")

    def _daemon_flags(self):
        """Earlier builds do not know them."""
        return self.profile.daemon_flags if self.daemon_build is self.builds.current else ()

    def _daemons_for(self, name):
        return "ipv4:" + ",".join(self.links.address(f"{name}-daemon{d}")
                                  for d in self.layout.daemons)

    def start_bank(self, number, clock=None):
        name = f"bank{number}"
        self.histories[name] = self._history(name)
        command = [str(self._binaries / "chaos-bank"), f"--name={name}",
                   f"--listen=unix:{self.socket(name)}",
                   f"--idempotencyd={self._daemons_for(name)}", f"--seed={self.seed}",
                   f"--lease_ms={self._lease_ms}", f"--log={self.histories[name]}",
                   f"--effects={self._history(name, 'effects')}",
                   *self._callers_credentials(name)]
        if number in self.layout.ledgers:
            command.append(f"--ledger=postgresql://postgres@{self._hosts(name)}/app"
                           "?target_session_attrs=read-write&connect_timeout=2&sslmode=disable"
                           "&gssencmode=disable")
            command += self.profile.ledger_flags
        self._start(name, command, clock).wait_for_line("serving")

    def _start_client(self, number, epoch_ns, epoch_ms):
        name = f"client{number}"
        banks = ";".join("ipv4:" + self.links.address(f"{name}-bank{b}")
                         for b in self.layout.banks)
        self._start(name, [str(self._binaries / "chaos-clients"), f"--name={name}",
                           f"--log={self._history(name)}", f"--banks={banks}",
                           f"--with_ledger={len(self.layout.ledgers)}",
                           f"--idempotencyd={self._daemons_for(name)}", f"--seed={self.seed}",
                           f"--epoch_ns={epoch_ns}", f"--epoch_ms={epoch_ms}",
                           f"--callers={self.layout.callers}", f"--raw={self.layout.raw}",
                           *self._callers_credentials(name)],
                    stdin=subprocess.PIPE).wait_for_line("working")

    def start(self):
        self._start_postgres()
        self.records.start(self.links)
        if self.records.is_prepared:
            self._migrate(self.daemon_build, self.records.url("daemon1"))
        for number in self.layout.daemons:
            self.authority.issue(f"daemon{number}")
            self.start_daemon(number)
        for number in self.layout.banks:
            self.start_bank(number)
        epoch_ns, epoch_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        for number in self.layout.clients:
            self._start_client(number, epoch_ns, epoch_ms)

    def _end(self, name, number, expected):
        process = self.processes[name]
        if process.running:
            process.stop(number)
            ShiftedClock.clean_up_after(process.pid)
            if process.code == expected:
                return
        raise RuntimeError(f"{name} ended with {process.code}:\n{process.tail()}")

    def kill(self, name):
        self._end(name, signal.SIGKILL, -signal.SIGKILL)

    def terminate(self, name):
        """A daemon, which then lets its calls finish."""
        self._end(name, signal.SIGTERM, 0)

    def restart(self, name, clock=None):
        number = int(name[-1])
        (self.start_daemon if name.startswith("daemon") else self.start_bank)(number, clock)

    def dead(self):
        """The names of those that ended by themselves."""
        names = [name for name, process in self.processes.items() if not process.running]
        names += [f"pg{node.number}" for node in self.postgres.nodes if not node.running]
        return names + self.records.dead()

    def wait_until_healthy(self):
        """Once the last fault is over: both stores have everything that was acknowledged."""
        self.postgres.wait_until_caught_up()
        self.records.wait_until_healthy()

    def settle(self, limit):
        """Makes the clients settle and read every key; returns their reports."""
        clients = [self.processes[f"client{number}"] for number in self.layout.clients]
        for client in clients:
            client.write_line("settle")
        return [client.wait_for_line("settled", limit) for client in clients]

    def stop(self):
        for process in self.processes.values():
            process.stop(signal.SIGKILL)
            ShiftedClock.clean_up_after(process.pid)
        self.postgres.stop()
        self.records.stop()
        self.links.close()
        for disk in self._disks:
            if disk is not None:
                disk.close()
