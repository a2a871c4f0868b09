"""Records in one Redis server that flushes each answer."""

from .records import ANY_PORT, Records
from .redis_node import RedisNode


class RedisRecords(Records):
    link_class = "redis"
    is_prepared = True

    def __init__(self, folder, daemons):
        self.node = RedisNode(folder, "redis")
        self._targets = {self._link(f"daemon{d}"): (ANY_PORT, f"unix:{self.node.socket}")
                         for d in daemons}
        self._links = None

    @staticmethod
    def _link(daemon):
        return f"{daemon}-redis"

    def targets(self):
        return self._targets

    def start(self, links):
        self._links = links
        self.node.start()

    def url(self, daemon):
        return f"redis://{self._links.address(self._link(daemon))}"

    def wait_until_healthy(self):
        self.node.wait_until(lambda node: node.command("PING") == "PONG", "answering")

    def dead(self):
        return [] if self.node.running else [self.node.name]

    def stop(self):
        self.node.stop()
