"""Crashes Postgres, fails it over, fills its disk."""

import time


class PostgresFaults:
    """For use by one thread. Links are whole meanwhile."""

    def __init__(self, system, journal, random, links):
        self._system = system
        self._postgres = system.postgres
        self._journal = journal
        self._random = random
        self._links = links
        self.kinds = {"kill_postgres": self.kill_postgres, "fail_over": self.fail_over,
                      "fail_over_behind": self.fail_over_behind}
        self.impossible = {}
        if system.no_disks is None:
            self.kinds["disk_full"] = self.disk_full
        else:
            self.impossible["disk_full"] = system.no_disks

    def kill_postgres(self):
        with self._links.whole():
            began = time.monotonic_ns()
            self._postgres.restart_primary()
            self._journal.fault("kill_postgres", f"pg{self._postgres.primary.number}", began,
                                time.monotonic_ns())

    def fail_over(self):
        with self._links.whole():
            began = time.monotonic_ns()
            self._postgres.fail_over()
            self._journal.fault("fail_over", f"pg{self._postgres.primary.number}", began,
                                time.monotonic_ns())
            self._postgres.attach_standby()

    def fail_over_behind(self):
        """The standby is behind when the primary crashes. The commits that it lacks can be seen
        once the primary is back, and the failover that follows reverts them."""
        with self._links.whole():
            link = f"replication{self._postgres.standby.number}"
            began = time.monotonic_ns()
            self._system.links.command(f"stall {link} both")
            time.sleep(self._random.uniform(0.2, 0.8))
            self._postgres.restart_primary()
            time.sleep(self._random.uniform(0.3, 1))
            self._postgres.fail_over()
            self._system.links.command(f"heal {link}")
            self._journal.fault("fail_over_behind", f"pg{self._postgres.primary.number}", began,
                                time.monotonic_ns())
            self._postgres.attach_standby()

    def disk_full(self):
        """The primary's log cannot grow any more: it stops in the middle of commits, and cannot
        even start again before there is room."""
        with self._links.whole():
            primary = self._postgres.primary
            began = time.monotonic_ns()
            primary.run_out_of_disk()
            time.sleep(self._random.uniform(0.2, 1))
            primary.recover_with_disk()
            self._journal.fault("disk_full", f"pg{primary.number}", began, time.monotonic_ns())
