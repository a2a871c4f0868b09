"""Rolls the daemons between two builds, and migrates the schema under load."""

import time

# Locks that `migrate` of the next version might take: nothing is written before they end.
_INDEX = """
SET lock_timeout = '10s';
CREATE INDEX chaos_by_lease ON {schema}.records (lease_until);
DROP INDEX {schema}.chaos_by_lease;"""
_SCHEMA = "SELECT schemaname FROM pg_tables WHERE tablename = 'records'"


class BuildFaults:
    """For use by one thread."""

    def __init__(self, system, journal, random):
        self._system = system
        self._builds = system.builds
        self._journal = journal
        self._random = random
        self.kinds, self.impossible = {}, {}
        if system.records.has_schema:
            self.kinds["migrate_under_load"] = self.migrate_under_load
        if self._builds.other is None:
            self.impossible["roll_between_builds"] = self._builds.no_other
        else:
            self.kinds["roll_between_builds"] = self.roll_between_builds

    def _roll(self, build, pause=(0, 0)):
        self._system.daemon_build = build
        for name in self._system.names("daemon"):
            self._system.terminate(name)
            self._system.restart(name)
            if self._system.program(name) != build.program:
                raise RuntimeError(f"{name} is not {build.what}")
            # Both builds serve.
            time.sleep(self._random.uniform(*pause))

    def roll_between_builds(self):
        """There and back. Guarded servers and clients keep their build."""
        began = time.monotonic_ns()
        self._roll(self._builds.other, (0.3, 1))
        self._journal.fault("roll_between_builds", "daemons", began, time.monotonic_ns())
        began = time.monotonic_ns()
        self._roll(self._builds.current, (0, 0.3))
        self._journal.fault("roll_between_builds", "daemons", began, time.monotonic_ns())

    def migrate_under_load(self):
        """The first time from the schema of an earlier version, whose daemons continue
        meanwhile and
        are then replaced, as in an upgrade. After that `migrate` finds no step to apply, and
        locks
        of the kind that a later version might take follow."""
        began = time.monotonic_ns()
        upgrade = self._system.daemon_build is not self._builds.current
        applied = "applied" in self._system.migrate(self._builds.current)
        if applied != upgrade:
            raise RuntimeError(f"migrate did {'something' if applied else 'nothing'}, which it "
                               "should not have")
        if upgrade:
            time.sleep(self._random.uniform(0.3, 1))
            self._roll(self._builds.current, (0.3, 1))
        else:
            primary = self._system.postgres.primary
            primary.sql(_INDEX.format(schema=primary.sql(_SCHEMA, "idem")), "idem")
        self._journal.fault("migrate_under_load", "schema", began, time.monotonic_ns())
