"""Records in a Redis Cluster of three masters, each with one replica that confirms writes."""

import socket

from .records import Records
from .redis_node import RedisNode

_SLOTS = 16384
_MASTERS = 3
# A master that is silent for this long is replaced.
NODE_TIMEOUT_MS = 1500


def _free_ports(count):
    """For the processes of this run alone."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class RedisClusterRecords(Records):
    """Each node announces the address of its link, by which daemons and replicas reach it. The
    nodes reach each other's bus without a link."""

    link_class = "redis"

    def __init__(self, folder, daemons):
        del daemons
        self._folder = folder
        ports = _free_ports(4 * _MASTERS)
        self._ports, self._buses = ports[:2 * _MASTERS], ports[2 * _MASTERS:]
        self._targets = {f"redis{n}": f"127.0.0.1:{port}" for n, port in enumerate(self._ports)}
        self._links = None
        self.nodes = []

    def targets(self):
        return self._targets

    def start(self, links):
        self._links = links
        for number, port in enumerate(self._ports):
            settings = ["--cluster-enabled", "yes", "--cluster-node-timeout",
                        str(NODE_TIMEOUT_MS), "--cluster-port", str(self._buses[number]),
                        "--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port",
                        links.port(f"redis{number}"), "--cluster-announce-bus-port",
                        str(self._buses[number]), "--repl-timeout", "4",
                        "--repl-diskless-sync-delay", "0"]
            self.nodes.append(RedisNode(self._folder, f"redis{number}", port, settings))
            self.nodes[-1].start()
        self._join()

    def _join(self):
        for number, node in enumerate(self.nodes):
            node.command("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
            if number < _MASTERS:
                node.command("CLUSTER", "ADDSLOTSRANGE", str(_SLOTS * number // _MASTERS),
                             str(_SLOTS * (number + 1) // _MASTERS - 1))
            if number > 0:
                self.nodes[0].command("CLUSTER", "MEET", "127.0.0.1", str(self._ports[number]),
                                      str(self._buses[number]))
        for number, replica in enumerate(self.nodes[_MASTERS:]):
            master = self.nodes[number].command("CLUSTER", "MYID")
            replica.wait_until(
                lambda node, master=master: node.command("CLUSTER", "REPLICATE", master) == "OK",
                "a replica")
        self.wait_until_healthy()

    def url(self, daemon):
        del daemon
        nodes = ",".join(self._links.address(name) for name in self._targets)
        return f"redis+cluster://{nodes}?wait_replicas=1"

    @staticmethod
    def role(node):
        """`master`, or `slave` as Redis names a replica."""
        return _field(node.command("INFO", "replication"), "role")

    def masters(self):
        return [node for node in self.nodes if self.role(node) == "master"]

    def wait_until_healthy(self):
        """Every node serves, and each master has its replica."""
        for node in self.nodes:
            node.wait_until(lambda node: "cluster_state:ok" in node.command("CLUSTER", "INFO"),
                            "part of a whole cluster")
            node.wait_until(self._is_paired, "a master with a replica, or a replica that follows")

    def _is_paired(self, node):
        state = node.command("INFO", "replication")
        if _field(state, "role") == "slave":
            return _field(state, "master_link_status") == "up"
        return "state=online" in state

    def dead(self):
        return [node.name for node in self.nodes if not node.running]

    def stop(self):
        for node in self.nodes:
            node.stop()


def _field(text, name):
    """Of INFO's text."""
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return line.partition(":")[2]
    return ""
