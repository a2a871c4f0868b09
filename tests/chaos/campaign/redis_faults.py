"""Crashes a Redis server, freezes it, fills its memory."""

import time

# The daemons give up a command after five seconds.
_FROZEN_S = (1, 7)
_FULL_BYTES = "1"


class RedisFaults:
    """For use by one thread. Links are whole meanwhile."""

    def __init__(self, system, journal, random, links):
        self._node = system.records.node
        self._journal = journal
        self._random = random
        self._links = links
        self.kinds = {"kill_9_redis": self.kill_9_redis, "stop_redis": self.stop_redis,
                      "redis_memory_full": self.memory_full}
        self.impossible = {}

    def kill_9_redis(self):
        with self._links.whole():
            began = time.monotonic_ns()
            self._node.kill_9()
            time.sleep(self._random.uniform(0, 0.5))
            self._node.start()
            self._journal.fault("kill_9_redis", self._node.name, began, time.monotonic_ns())

    def stop_redis(self):
        with self._links.whole():
            began = time.monotonic_ns()
            self._node.pause()
            try:
                time.sleep(self._random.uniform(*_FROZEN_S))
            finally:
                self._node.resume()
            self._journal.fault("stop_redis", self._node.name, began, time.monotonic_ns())

    def memory_full(self):
        """Writes are refused in the middle of operations; reads are not."""
        with self._links.whole():
            began = time.monotonic_ns()
            self._node.command("CONFIG", "SET", "maxmemory", _FULL_BYTES)
            try:
                time.sleep(self._random.uniform(0.2, 1))
            finally:
                self._node.command("CONFIG", "SET", "maxmemory", "0")
            self._journal.fault("redis_memory_full", self._node.name, began, time.monotonic_ns())
