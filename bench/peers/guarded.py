"""This project's guard, with its daemon and without."""

import subprocess

from .contender import Contender, Target

_TRAILER = "-replayed_trailer=idempotency-replayed"
_POSTGRES = "every commit is flushed before it is acknowledged (fsync, synchronous_commit)"


class Guarded(Contender):
    """Three processes: the guarded server, idempotencyd, Postgres."""

    key = "guarded"
    title = "guard + idempotencyd"
    settings = "defaults; Postgres by unix socket, one daemon, replay cache on"
    durability = _POSTGRES
    not_comparable = ("a process more than a middleware has; leases, tokens, scopes and retention "
                      "included; replays within 10 s come from the guard's memory")

    def versions(self, bench):
        done = subprocess.run([bench.binary("idempotencyd"), "--version"], capture_output=True,
                              text=True, check=True)
        return {"idempotencyd": done.stdout.split()[-1], "language": "C++"}

    def start(self, bench):
        return self.target(bench.charges(bench.daemon()))

    @staticmethod
    def target(charges):
        return Target([f"-target={charges.guarded}", f"-bare={charges.bare}", _TRAILER])


class Embedded(Guarded):
    """The service inside the server: two processes, as a middleware has."""

    key = "embedded"
    title = "guard, service embedded"
    settings = "defaults; Postgres by unix socket, no daemon, replay cache on"
    not_comparable = ("leases, tokens, scopes and retention included; replays within 10 s come "
                      "from the guard's memory")

    def start(self, bench):
        _, store = bench.migrated_database()
        return self.target(bench.charges(embedded_store=store))
