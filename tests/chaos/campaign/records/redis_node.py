"""One Redis server, with every setting that makes an answer durable."""

import os
import pathlib
import signal
import socket
import time

from bench.comparison.process import Process

_PROGRAMS = ("/usr/local/bin/redis-server", "/usr/bin/redis-server")
# Of the unix socket; that of a port begins with a capital letter, and precedes it.
_READY = "ready to accept connections at"
# A replica that reads its data again is the slowest.
_SERVES_WITHIN_S = 60


def _program():
    given = os.environ.get("IDEMPOTENCY_TEST_REDIS")
    if given:
        return given
    for program in _PROGRAMS:
        if os.path.exists(program):
            return program
    raise RuntimeError("no redis-server: run scripts/install-dependencies.sh test")


class RedisNode:
    """Listens on a unix socket in its folder, and on `port` of two addresses unless that is 0."""

    def __init__(self, folder, name, port=0, settings=()):
        self.name = name
        self.folder = pathlib.Path(folder) / name
        self.folder.mkdir()
        self.socket = self.folder / "redis.sock"
        self._logs = pathlib.Path(folder)
        self._settings = ["--port", str(port), "--unixsocket", str(self.socket), "--bind",
                          "127.0.0.1", "127.0.0.2", "--dir", str(self.folder), "--save", "", "--appendonly",
                          "yes", "--appendfsync", "always", *settings]
        self._server = None
        self._starts = 0

    @property
    def running(self):
        return self._server is not None and self._server.running

    def start(self):
        self._starts += 1
        self._server = Process([_program(), *self._settings],
                               self._logs / f"{self.name}-{self._starts:02}.log")
        self._server.wait_for_line(_READY)

    def kill_9(self):
        self._server.stop(signal.SIGKILL)

    def pause(self):
        self._server.pause()

    def resume(self):
        self._server.resume()

    def stop(self):
        if self._server is not None:
            self._server.stop(signal.SIGKILL)

    def command(self, *words):
        """The first line of its answer, and the following text of a bulk string."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(self.socket))
            connection.sendall(f"*{len(words)}\r\n".encode() + b"".join(
                b"$%d\r\n%s\r\n" % (len(word), word) for word in map(str.encode, words)))
            with connection.makefile("rb") as answers:
                first = answers.readline().decode().rstrip()
                if first.startswith("-"):
                    raise RuntimeError(f"{self.name}: {words[0]}: {first[1:]}")
                if first.startswith("$"):
                    return answers.read(int(first[1:])).decode()
                return first[1:]

    def wait_until(self, condition, what):
        """Until `condition(self)` is true; errors count as false."""
        deadline = time.monotonic() + _SERVES_WITHIN_S
        while not self._holds(condition):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} is not {what}")
            time.sleep(0.05)

    def _holds(self, condition):
        try:
            return condition(self)
        except (RuntimeError, OSError):
            return False
