"""One side of the comparison."""

import dataclasses

from .packages import LeftOut


@dataclasses.dataclass
class Target:
    """The flags by which the load reaches a started server, and whether it takes calls without a
    key."""

    flags: list
    has_bare: bool = True


def start_over_postgres(bench, name, program, connections):
    """Starts a server of charges in Go with a database of its own; returns its address."""
    server = bench.start(name, [
        str(program), f"-store={bench.cluster.url(bench.cluster.new_database())}",
        f"-connections={connections}"])
    return server.wait_for_line("charges: serving on ").split("serving on ")[1]


class Contender:
    """A way to make a call idempotent. Its servers are started for one turn and stopped after it.

    The texts go into the table, so that a reader can judge the numbers.
    """

    key = ""
    title = ""
    settings = ""
    durability = ""
    not_comparable = ""

    def prepare(self, bench, packages):
        """Installs and builds; LeftOut if that is impossible here."""

    def versions(self, bench):
        """By name."""
        return {}

    def start(self, bench):
        """Starts its servers, with records of no earlier turn. Returns the Target."""
        raise NotImplementedError


class Absent(Contender):
    """One that is known and cannot be run from the package registries."""

    def __init__(self, key, title, reason):
        self.key, self.title, self._reason = key, title, reason

    def prepare(self, bench, packages):
        raise LeftOut(self._reason)
