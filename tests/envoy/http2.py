"""HTTP/2 with headers that no client library would send."""

import socket

import h2.config
import h2.connection
import h2.events


def send(address, method, path, headers=(), body=b"", timeout=20):
    """The reply to these headers: (status, headers, body)."""
    host, _, port = address.rpartition(":")
    stream = h2.connection.H2Connection(h2.config.H2Configuration(
        validate_outbound_headers=False, normalize_outbound_headers=False, header_encoding="utf-8"))
    stream.initiate_connection()
    first = [(":method", method), (":scheme", "http"), (":authority", "test"), (":path", path),
             ("content-length", str(len(body)))]
    with socket.create_connection((host, int(port)), timeout=timeout) as connection:
        stream.send_headers(1, [*first, *headers])
        stream.send_data(1, body, end_stream=True)
        connection.sendall(stream.data_to_send())
        return _reply(stream, connection)


def _reply(stream, connection):
    headers, body = [], b""
    while True:
        read = connection.recv(1 << 16)
        if not read:
            raise AssertionError("the connection has ended before the reply")
        for event in stream.receive_data(read):
            if isinstance(event, h2.events.ResponseReceived):
                headers = event.headers
            elif isinstance(event, h2.events.DataReceived):
                body += event.data
            elif isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
                raise AssertionError(f"no reply: {event}")
            elif isinstance(event, h2.events.StreamEnded):
                return int(dict(headers)[":status"]), headers, body
        connection.sendall(stream.data_to_send())
