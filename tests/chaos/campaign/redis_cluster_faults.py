"""Crashes and freezes masters of a Redis Cluster, with and without a failover."""

import time

from .records.redis_cluster_records import NODE_TIMEOUT_MS

# Long enough for an election.
_REPLACED_S = NODE_TIMEOUT_MS / 1000 + 2.5


class RedisClusterFaults:
    """For use by one thread. Links are whole meanwhile, and the cluster is whole afterwards."""

    def __init__(self, system, journal, random, links):
        self._proxy = system.links
        self._records = system.records
        self._journal = journal
        self._random = random
        self._links = links
        self.kinds = {"kill_9_master": self.kill_9_master,
                      "fail_over_master": self.fail_over_master,
                      "fail_over_behind_master": self.fail_over_behind_master,
                      "stop_master": self.stop_master, "kill_9_replica": self.kill_9_replica}
        self.impossible = {}

    def _fault(self, kind, node, breaks, seconds, repairs):
        with self._links.whole():
            began = time.monotonic_ns()
            breaks()
            try:
                time.sleep(self._random.uniform(*seconds))
            finally:
                repairs()
            ended = time.monotonic_ns()
            self._records.wait_until_healthy()
            self._journal.fault(kind, node.name, began, ended)

    def _master(self):
        return self._random.choice(self._records.masters())

    def kill_9_master(self):
        """Back before it is replaced."""
        master = self._master()
        self._fault("kill_9_master", master, master.kill_9, (0, 0.5), master.start)

    def fail_over_master(self):
        """Its replica becomes the master, and it returns as the replica."""
        master = self._master()
        self._fault("fail_over_master", master, master.kill_9, (_REPLACED_S, _REPLACED_S + 1),
                    master.start)
        if self._records.role(master) != "slave":
            raise RuntimeError(f"{master.name} was not replaced")

    def fail_over_behind_master(self):
        """Its replica lacks its last writes when it crashes, and becomes the master."""
        master = self._master()
        link = self._records.replication_link(self._records.nodes.index(master))

        def breaks():
            self._proxy.command(f"stall {link} both")
            time.sleep(self._random.uniform(0.2, 0.8))
            master.kill_9()

        def repairs():
            self._proxy.command(f"heal {link}")
            master.start()

        self._fault("fail_over_behind_master", master, breaks, (_REPLACED_S, _REPLACED_S + 1),
                    repairs)

    def stop_master(self):
        """It is replaced while it is frozen, and then goes on as if nothing had happened until it
        learns of that."""
        master = self._master()
        self._fault("stop_master", master, master.pause, (_REPLACED_S, _REPLACED_S + 1),
                    master.resume)

    def kill_9_replica(self):
        """No write of its master is confirmed meanwhile."""
        masters = self._records.masters()
        replica = self._random.choice([n for n in self._records.nodes if n not in masters])
        self._fault("kill_9_replica", replica, replica.kill_9, (0, 0.5), replica.start)
