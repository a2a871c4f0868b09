"""The system that is broken: Postgres, daemons, guarded servers, clients, and the links between."""

import json
import pathlib
import signal
import subprocess
import threading
import time

from bench.comparison.process import Process
from tests.chaos.proxy.chaos_proxy_process import ChaosProxy

from .postgres_node import PostgresNode
from .postgres_pair import PostgresPair

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

    def __init__(self, daemons=2, banks=3, ledgers=2, clients=2, callers=40, raw=2):
        self.daemons = range(1, daemons + 1)
        self.banks = range(1, banks + 1)
        self.ledgers = range(1, ledgers + 1)
        self.clients = range(1, clients + 1)
        self.callers = callers
        self.raw = raw


class Links:
    """The proxy's, by their names. Thread-safe."""

    def __init__(self, binary, folder, layout, seed):
        self._lock = threading.Lock()
        sockets = [folder / f"pg{n}" / ".s.PGSQL.5432" for n in (0, 1)]
        links = {f"replication{n}": sockets[1 - n] for n in (0, 1)}
        for n in (0, 1):
            links.update({f"daemon{d}-pg{n}": sockets[n] for d in layout.daemons})
            links.update({f"bank{b}-pg{n}": sockets[n] for b in layout.ledgers})
        for d in layout.daemons:
            callers = ([f"bank{b}" for b in layout.banks]
                       + [f"client{c}" for c in layout.clients])
            links.update({f"{caller}-daemon{d}": folder / f"daemon{d}.sock"
                          for caller in callers})
        for b in layout.banks:
            links.update({f"client{c}-bank{b}": folder / f"bank{b}.sock" for c in layout.clients})
        self._proxy = ChaosProxy(binary, {name: ("127.0.0.1:0", f"unix:{target}")
                                          for name, target in links.items()}, seed)
        self.names = sorted(links)

    def address(self, name):
        return self._proxy.addresses[name]

    def port(self, name):
        return self.address(name).rpartition(":")[2]

    def tell(self, line):
        with self._lock:
            self._proxy.tell(line)

    def fired(self, name):
        with self._lock:
            return self._proxy.stats(name)["fired"]

    def close(self):
        self._proxy.close()


class System:
    """Everything that runs. start(), then break it, then stop()."""

    def __init__(self, folder, binaries, layout, seed, lease_ms):
        self.folder = pathlib.Path(folder)
        self.logs = self.folder / "logs"
        self.logs.mkdir()
        self.layout = layout
        self.seed = seed
        self._lease_ms = lease_ms
        self._binaries = pathlib.Path(binaries)
        self.links = Links(str(self._binaries / "chaos-proxy"), self.folder, layout, seed)
        self.postgres = PostgresPair([
            PostgresNode(self.folder, n, ("127.0.0.1", self.links.port(f"replication{n}")))
            for n in (0, 1)])
        self.processes = {}
        self._starts = {}

    # Postgres

    def _start_postgres(self):
        self.postgres.begin()
        primary = self.postgres.primary
        primary.sql("CREATE DATABASE idem")
        primary.sql("CREATE DATABASE app")
        primary.sql(pathlib.Path(_LEDGER_TABLE).read_text(encoding="utf-8") + _EFFECTS_TABLE, "app")
        host = str(primary.folder).replace("/", "%2F")
        subprocess.run([str(self._binaries / "idempotencyd"), "migrate",
                        f"--store=postgresql://postgres@/idem?host={host}"],
                       check=True, stdout=subprocess.DEVNULL, timeout=60)
        self.postgres.attach_standby()

    def _hosts(self, name):
        return ",".join(f"127.0.0.1:{self.links.port(f'{name}-pg{n}')}" for n in (0, 1))

    def effects(self):
        """The rows of the application's own table."""
        rows = self.postgres.primary.sql(_EFFECTS, "app")
        return [json.loads(row) for row in rows.splitlines()]

    # Processes

    def _start(self, name, command, **options):
        self._starts[name] = self._starts.get(name, 0) + 1
        log = self.folder / f"{name}-{self._starts[name]:02}.log"
        self.processes[name] = Process([str(self._binaries / command[0]), *command[1:]], log,
                                       **options)
        return self.processes[name]

    def _history(self, name, what="history"):
        return self.logs / f"{name}-{self._starts.get(name, 0) + 1:02}-{what}.jsonl"

    def start_daemon(self, number):
        name = f"daemon{number}"
        self._start(name, ["idempotencyd", "serve", f"--listen=unix:{self.folder}/{name}.sock",
                           f"--store=postgresql://postgres@{self._hosts(name)}/idem"
                           "?target_session_attrs=read-write&sslmode=disable&gssencmode=disable",
                           "--metrics=", "--drain_timeout=3s"]).wait_for_line("serving on")

    def _daemons_for(self, name):
        return "ipv4:" + ",".join(self.links.address(f"{name}-daemon{d}")
                                  for d in self.layout.daemons)

    def start_bank(self, number):
        name = f"bank{number}"
        command = ["chaos-bank", f"--name={name}", f"--listen=unix:{self.folder}/{name}.sock",
                   f"--idempotencyd={self._daemons_for(name)}", f"--seed={self.seed}",
                   f"--lease_ms={self._lease_ms}", f"--log={self._history(name)}",
                   f"--effects={self._history(name, 'effects')}"]
        if number in self.layout.ledgers:
            command.append(f"--ledger=postgresql://postgres@{self._hosts(name)}/app"
                           "?target_session_attrs=read-write&connect_timeout=2&sslmode=disable"
                           "&gssencmode=disable")
        self._start(name, command).wait_for_line("serving")

    def _start_client(self, number, epoch_ns, epoch_ms):
        name = f"client{number}"
        banks = ";".join("ipv4:" + self.links.address(f"{name}-bank{b}")
                         for b in self.layout.banks)
        self._start(name, ["chaos-clients", f"--name={name}", f"--log={self._history(name)}",
                           f"--banks={banks}", f"--with_ledger={len(self.layout.ledgers)}",
                           f"--idempotencyd={self._daemons_for(name)}", f"--seed={self.seed}",
                           f"--epoch_ns={epoch_ns}", f"--epoch_ms={epoch_ms}",
                           f"--callers={self.layout.callers}", f"--raw={self.layout.raw}"],
                    stdin=subprocess.PIPE).wait_for_line("working")

    def start(self):
        self._start_postgres()
        for number in self.layout.daemons:
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
            if process.code == expected:
                return
        raise RuntimeError(f"{name} ended with {process.code}:\n{process.tail()}")

    def kill(self, name):
        self._end(name, signal.SIGKILL, -signal.SIGKILL)

    def terminate(self, name):
        """A daemon, which then lets its calls finish."""
        self._end(name, signal.SIGTERM, 0)

    def restart(self, name):
        number = int(name[-1])
        (self.start_daemon if name.startswith("daemon") else self.start_bank)(number)

    def dead(self):
        """The names of those that ended by themselves."""
        names = [name for name, process in self.processes.items() if not process.running]
        return names + [f"pg{node.number}" for node in self.postgres.nodes if not node.running]

    def settle(self, limit=120):
        """Has the clients bring every key to an end and look at it; answers what they say."""
        clients = [self.processes[f"client{number}"] for number in self.layout.clients]
        for client in clients:
            client.tell("settle")
        return [client.wait_for_line("settled", limit) for client in clients]

    def stop(self):
        for process in self.processes.values():
            process.stop(signal.SIGKILL)
        self.postgres.stop()
        self.links.close()
