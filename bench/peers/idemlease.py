"""The Go library idemlease, from a source tree that the user has: no registry serves it."""

import pathlib

from .contender import Contender, Target, start_over_postgres
from .packages import LeftOut, run

_CONNECTIONS = 16
_MODULE = "github.com/repenguin22/idemlease"


class Idemlease(Contender):
    """Its gRPC interceptor and its store on Postgres, in the server's process."""

    key = "idemlease"
    title = "idemlease (Go)"
    settings = (f"defaults; database/sql over pgx, {_CONNECTIONS} connections by unix socket, "
                "none closed when idle")
    durability = "every commit is flushed before it is acknowledged (fsync, synchronous_commit)"
    not_comparable = ("leases and tokens as here; no wait for a duplicate, heartbeat or recovery; "
                      "errors are not recorded; another language and gRPC library: compare what "
                      "each adds to its own unguarded call")

    def __init__(self):
        self.source = None
        self._program = None

    def prepare(self, bench, packages):
        if self.source is None:
            raise LeftOut("the Go module proxy does not serve the module; "
                          "--idemlease takes a source tree of it")
        source = pathlib.Path(self.source).absolute()
        if not (source / "grpcidem").is_dir():
            raise LeftOut(f"{source} has no folder grpcidem")
        self._program = packages.go_program_with("idemlease", {
            _MODULE: source, f"{_MODULE}/grpcidem": source / "grpcidem",
            f"{_MODULE}/pgstore": source / "pgstore"})

    def versions(self, bench):
        commit = run(["git", "rev-parse", "--short", "HEAD"], self.source).strip()
        return {"idemlease": commit, "language": run(["go", "env", "GOVERSION"], ".").strip()}

    def start(self, bench):
        address = start_over_postgres(bench, "idemlease", self._program, _CONNECTIONS)
        return Target([f"-target={address}"])
