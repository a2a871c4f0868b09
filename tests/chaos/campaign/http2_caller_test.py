import contextlib
import pathlib
import socket
import tempfile
import threading
import unittest

import h2.config
import h2.connection
import h2.events

from .http2_caller import Http2Caller

_LIMIT_S = 20


class Server:
    """Accepts one connection, and runs `then(connection, stream)` when a request's headers
    arrive."""

    def __init__(self, path, then):
        self._then = then
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(_LIMIT_S)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, name="server")
        self._thread.start()

    def join(self):
        self._thread.join(_LIMIT_S)
        self._listener.close()

    def _serve(self):
        client, _ = self._listener.accept()
        client.settimeout(_LIMIT_S)
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        connection.initiate_connection()
        # The caller may close first.
        with client, contextlib.suppress(OSError):
            client.sendall(connection.data_to_send())
            while data := client.recv(65536):
                for event in connection.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        self._then(connection, event.stream_id)
                client.sendall(connection.data_to_send())


class Http2CallerTest(unittest.TestCase):
    # More than the window of a stream, so that the caller has to wait for the server's update.
    _LARGE = b"x" * 100_000

    def call(self, then):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "socket"
            server = Server(path, then)
            with Http2Caller(path) as caller:
                caller.wait([caller.call("/any", messages=[self._LARGE])])
                over = (caller.refused, caller.closed)
            server.join()
        return over

    def test_a_stream_that_is_reset_while_it_is_written(self):
        refused, closed = self.call(lambda server, stream: server.reset_stream(stream))
        self.assertEqual((refused, closed), ({1}, False))

    def test_a_connection_that_is_ended_while_a_stream_is_written(self):
        _, closed = self.call(lambda server, _: server.close_connection())
        self.assertTrue(closed)


if __name__ == "__main__":
    unittest.main()
