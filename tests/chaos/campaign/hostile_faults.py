"""A hostile caller, beside others that must not be affected."""

import contextlib
import re
import socket
import time

from . import hostile_bytes
from .authority import SERVER_NAME
from .http2_caller import Http2Caller

# Long enough for calls that begin and end within it: see checker/service.py.
_LASTS_S = 8
# The share of the others' calls that is served meanwhile.
_SERVED = 0.98
_CONNECTIONS = 700
_HELD_S = 1.5
_ACCEPTS_WITHIN_S = 10
_READERS = 60
_REPLY_BYTES = 1_000_000
_TOKEN = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class HostileFaults:
    """For use by one thread. Links are whole meanwhile, so that
    only the hostile caller can be the reason why a call is not served."""

    def __init__(self, system, journal, random, links):
        self._system = system
        self._journal = journal
        self._random = random
        self._links = links
        self._tls = system.authority.context()
        self.kinds = {"hostile_headers": self.hostile_headers,
                      "hostile_frames": self.hostile_frames,
                      "hostile_connections": self.hostile_connections,
                      "hostile_readers": self.hostile_readers}
        self.impossible = {}

    def hostile_headers(self):
        self._attack("hostile_headers", self._system.names("bank"), self._send_headers)

    def hostile_frames(self):
        self._attack("hostile_frames", self._system.names("daemon"), self._send_frame)

    def hostile_connections(self):
        self._attack("hostile_connections", self._system.names("daemon"), self._connect_often)

    def hostile_readers(self):
        with contextlib.ExitStack() as held:
            self._attack("hostile_readers", self._system.names("daemon"),
                         lambda name, _: held.enter_context(self._ask_and_not_read(name)))

    def _attack(self, kind, names, strike):
        """Attacks each in turn for a while; it was no fault unless each was hit."""
        with self._links.whole():
            began = time.monotonic_ns()
            until = time.monotonic() + _LASTS_S
            hits = dict.fromkeys(names, 0)
            while time.monotonic() < until:
                for name in names:
                    hits[name] += bool(strike(name, until))
            for name in names:
                if name.startswith("daemon"):
                    self._must_accept(name)
            if all(hits.values()):
                self._journal.fault(kind, ",".join(names), began, time.monotonic_ns(),
                                    served=_SERVED)

    def _caller(self, name, **options):
        tls = {} if name.startswith("bank") else {"tls": self._tls, "server_name": SERVER_NAME}
        return Http2Caller(self._system.socket(name), **tls, **options)

    def _send_headers(self, name, _):
        with contextlib.suppress(OSError), self._caller(name) as caller:
            streams = [caller.call(hostile_bytes.ACT,
                                   hostile_bytes.headers_of_a_call(self._random),
                                   [hostile_bytes.request_of_a_call(self._random)])
                       for _ in range(10) if not caller.closed]
            return caller.wait(streams)
        return 0

    def _send_frame(self, name, _):
        with contextlib.suppress(OSError), self._caller(name) as caller:
            stream = caller.call(hostile_bytes.SESSION,
                                 messages=[hostile_bytes.hostile_frame(self._random)], end=False)
            caller.wait([stream], deadline_s=0.5)
            return 1
        return 0

    def _connect_often(self, name, _):
        """Connections that send nothing, as many as are accepted."""
        with contextlib.ExitStack() as held:
            connected = 0
            for _ in range(_CONNECTIONS):
                connection = held.enter_context(socket.socket(socket.AF_UNIX))
                connection.setblocking(False)
                # A full backlog is part of it.
                with contextlib.suppress(OSError):
                    connection.connect(str(self._system.socket(name)))
                    connected += 1
            time.sleep(_HELD_S)
            return connected > _CONNECTIONS // 10

    def _ask_and_not_read(self, name):
        """A caller with many large replies in transit that reads none of them."""
        key = hostile_bytes.new_key()
        with self._caller(name) as caller:
            reserved = caller.call(hostile_bytes.RESERVE,
                                   messages=[hostile_bytes.reserve_request(key)])
            caller.wait([reserved])
            token = _TOKEN.search(caller.bodies[reserved])
            if token is not None:
                completed = caller.call(hostile_bytes.COMPLETE, messages=[
                    hostile_bytes.complete_request(key, token[0], b"r" * _REPLY_BYTES)])
                caller.wait([completed])
        slow = self._caller(name, window=1)
        for _ in range(_READERS):
            slow.call(hostile_bytes.RESERVE, messages=[hostile_bytes.reserve_request(key)])
        slow.take(0.2)
        return slow

    def _must_accept(self, name):
        """A daemon that no longer accepts connections is a finding, even if it serves
        others."""
        deadline = time.monotonic() + _ACCEPTS_WITHIN_S
        while True:
            try:
                self._system.authority.served(self._system.socket(name))
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{name} takes no connection any more: {error}") from error
                time.sleep(0.2)
