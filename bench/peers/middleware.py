"""A middleware of two statements, in Go."""

from .contender import Contender, Target, start_over_postgres
from .packages import HERE, run

_CONNECTIONS = 16


class Middleware(Contender):
    """INSERT, the handler, UPDATE."""

    key = "middleware"
    title = "two statements, by hand (Go)"
    settings = f"pgx, {_CONNECTIONS} connections by unix socket, statements prepared"
    durability = ("every commit is flushed before it is acknowledged (fsync, synchronous_commit); "
                  "a key whose server crashed stays in progress for ever")
    not_comparable = ("no lease, token, scope, retention or wait for a duplicate; another language "
                      "and gRPC library: compare what each adds to its own unguarded call")

    def __init__(self):
        self._program = None

    def prepare(self, bench, packages):
        self._program = packages.go_program("middleware")

    def versions(self, bench):
        listed = run(["go", "list", "-m", "-f", "{{.Version}}", "github.com/jackc/pgx/v5",
                      "google.golang.org/grpc"], HERE / "go").split()
        return {"pgx": listed[0], "grpc-go": listed[1],
                "language": run(["go", "env", "GOVERSION"], HERE / "go").strip()}

    def start(self, bench):
        address = start_over_postgres(bench, "middleware", self._program, _CONNECTIONS)
        return Target([f"-target={address}", "-replayed_trailer=idempotency-replayed"])
