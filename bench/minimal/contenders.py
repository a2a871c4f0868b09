"""The servers that the comparison with a minimal program starts: each on a database of its own, for
a turn, so that it does not run beside the others."""

import types

from bench.comparison.bench import Charges


class Contender:
    """A Charges server with a key for each call, and what it needs. start() and stop() any number of
    times: the database stays."""

    def __init__(self, bench, cached):
        self._bench = bench
        self._cached = cached
        self._servers = []

    def start(self):
        """The address of its guarded port."""
        raise NotImplementedError

    def stop(self):
        self._bench.stop(*self._servers)
        self._servers = []

    def _serve(self, server):
        self._servers.append(server)
        return server


class Unguarded(Contender):

    def start(self):
        return self._serve(self._bench.charges()).bare


class Guarded(Contender):
    """Ours."""

    def __init__(self, bench, cached, embedded):
        super().__init__(bench, cached)
        self._embedded = embedded
        _, self._store = bench.migrated_database()

    def start(self):
        flags = {} if self._cached else {"replay_cache_bytes": 0}
        if self._embedded:
            charges = self._bench.charges(embedded_store=self._store, **flags)
        else:
            charges = self._bench.charges(self._serve(self._bench.daemon(self._store)), **flags)
        return self._serve(charges).guarded

    def stop(self):
        # The server before its daemon.
        self._servers.reverse()
        super().stop()


class Minimal(Guarded):
    """The minimal program. Its processes have the same names."""

    def __init__(self, bench, cached, embedded):
        Contender.__init__(self, bench, cached)
        self._embedded = embedded
        self.database = bench.cluster.new_database()
        self._store = bench.cluster.url(self.database)

    def start(self):
        command = [self._bench.binary("minimal_server")]
        if self._cached:
            command.append("--cache")
        if self._embedded:
            command.append(f"--store={self._store}")
        else:
            process = self._bench.start("idempotencyd", [self._bench.binary("minimal_daemon"),
                                                         f"--store={self._store}"])
            address = process.wait_for_line("serving on ").split("serving on ")[1]
            self._serve(types.SimpleNamespace(process=process))
            command.append(f"--daemon={address}")
        return self._serve(Charges(self._bench.start("charges", command))).guarded


def contenders(bench, cached):
    """By title, in the order of their turns."""
    return {
        "unguarded": Unguarded(bench, cached),
        "guarded": Guarded(bench, cached, embedded=False),
        "minimal": Minimal(bench, cached, embedded=False),
        "guarded, embedded": Guarded(bench, cached, embedded=True),
        "minimal, embedded": Minimal(bench, cached, embedded=True),
    }
