"""HTTP/1.1 with a request line that no client library would send."""

import http.client
import socket


def send(address, method, target, headers=(), body=b"", timeout=20):
    """The reply to these bytes: (status, headers, body)."""
    host, _, port = address.rpartition(":")
    lines = [f"{method} {target} HTTP/1.1", "host: test", "connection: close",
             f"content-length: {len(body)}", *(f"{name}: {value}" for name, value in headers)]
    with socket.create_connection((host, int(port)), timeout=timeout) as connection:
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        reply = http.client.HTTPResponse(connection, method=method)
        reply.begin()
        return reply.status, reply.getheaders(), reply.read()
