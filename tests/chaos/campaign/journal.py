"""The orchestrator's own history: the run, its faults, its phases, the application's table."""

import json
import threading
import time


class Journal:
    """Thread-safe. tests/chaos/README.md has the format."""

    def __init__(self, path):
        self._lock = threading.Lock()
        self._file = open(path, "ab", buffering=0)
        self.faults = 0

    def close(self):
        self._file.close()

    def write(self, event, **fields):
        line = json.dumps({"event": event, **fields}).encode() + b"\n"
        with self._lock:
            self._file.write(line)

    def fault(self, kind, target, began, until=None, servers=None, served=None,
              settled_ms=None):
        """Of a fault that is over. `servers` is omitted if it reaches all of them. `served` is
        the share of calls that have to be served while it lasts, if no other fault is active,
        `settled_ms` the time that callers have to leave the broken part."""
        fields = {"kind": kind, "target": target, "t": began}
        if until is not None:
            fields["until"] = until
        if servers is not None:
            fields["servers"] = servers
        if served is not None:
            fields["served"] = served
        if settled_ms is not None:
            fields["settled_ms"] = settled_ms
        self.write("fault", **fields)
        with self._lock:
            self.faults += 1

    def phase(self, name):
        self.write("phase", phase=name, t=time.monotonic_ns())
