"""Records in a Redis Cluster of three masters, each with one replica that confirms writes."""

import socket

from .records import Records
from .redis_node import RedisNode

_SLOTS = 16384
_MASTERS = 3
# A master that is silent for this long is replaced.
NODE_TIMEOUT_MS = 1500


# A node announces one port: clients reach it at the first address, replicas at the second.
_CLIENTS = "127.0.0.1"
_REPLICAS = "127.0.0.2"


def _free_ports(count):
    """On every address of this machine."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class RedisClusterRecords(Records):
    """A node has a link for daemons and one for its replica. The nodes reach each other's bus
    without a link."""

    link_class = "redis"
    is_prepared = True

    def __init__(self, folder, daemons):
        del daemons
        self._folder = folder
        nodes = 2 * _MASTERS
        ports = _free_ports(3 * nodes)
        self._ports, self._buses = ports[:nodes], ports[nodes:2 * nodes]
        self._announced = ports[2 * nodes:]
        self._targets = {}
        for number, port in enumerate(self._announced):
            target = f"127.0.0.1:{self._ports[number]}"
            self._targets[f"redis{number}"] = (f"{_CLIENTS}:{port}", target)
            self._targets[self.replication_link(number)] = (f"{_REPLICAS}:{port}", target)
        self.nodes = []

    def targets(self):
        return self._targets

    def is_link(self, name):
        return name.startswith("redis")

    def is_idle(self, name):
        """No node replicates a replica."""
        if not name.startswith("replication-redis"):
            return False
        try:
            return self.role(self.nodes[int(name[-1])]) != "master"
        except (RuntimeError, OSError):
            return True

    @staticmethod
    def replication_link(number):
        """From the replica of the node of that number."""
        return f"replication-redis{number}"

    def start(self, links):
        del links
        for number, port in enumerate(self._ports):
            settings = ["--cluster-enabled", "yes", "--cluster-node-timeout",
                        str(NODE_TIMEOUT_MS), "--cluster-port", str(self._buses[number]),
                        "--cluster-announce-ip", _REPLICAS, "--cluster-announce-hostname",
                        _CLIENTS, "--cluster-preferred-endpoint-type", "hostname",
                        "--cluster-announce-port", str(self._announced[number]),
                        "--cluster-announce-bus-port", str(self._buses[number]),
                        "--repl-timeout", "4",
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
                self.nodes[0].command("CLUSTER", "MEET", _CLIENTS, str(self._ports[number]),
                                      str(self._buses[number]))
        for number, replica in enumerate(self.nodes[_MASTERS:]):
            master = self.nodes[number].command("CLUSTER", "MYID")
            replica.wait_until(
                lambda node, master=master: node.command("CLUSTER", "REPLICATE", master) == "OK",
                "a replica")
        self.wait_until_healthy()

    def url(self, daemon):
        del daemon
        nodes = ",".join(f"{_CLIENTS}:{port}" for port in self._announced)
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
