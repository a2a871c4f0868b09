"""A port of a server that stops and returns: no other process gets it meanwhile. As
tests/support/held_port.h."""

import socket


class HeldPort:
    """Bound without listening; a server that sets SO_REUSEADDR can listen there."""

    def __init__(self):
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = self._socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.number}"

    def close(self):
        self._socket.close()
