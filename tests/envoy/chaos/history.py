"""Lines of a history, as tests/chaos/README.md describes them."""

import hashlib
import json
import os
import time


class History:
    """A file of one process. Each line is one write. Thread-safe."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, event, **fields):
        line = {"event": event, "t": time.monotonic_ns(), **fields}  # `fields` may have its own t
        os.write(self._file, json.dumps(line).encode() + b"\n")


def record_of(method, key):
    return ["shop", "shop", method, key]


def digest(code, message, body):
    """Of a reply, the same for its sender and its receiver."""
    return hashlib.sha256(repr((code, message, body)).encode()).hexdigest()[:16]
