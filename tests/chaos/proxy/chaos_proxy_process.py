"""A chaos-proxy process: starts it, sends it commands, ends it."""

import json
import os
import socket
import subprocess
import tempfile


class ChaosProxy:
    """`links`: {name: (listen, target)}, addresses as "127.0.0.1:0" or "unix:PATH"."""

    def __init__(self, binary, links, seed=0):
        self._folder = tempfile.TemporaryDirectory(prefix="chaos-proxy.")
        control = os.path.join(self._folder.name, "control.sock")
        self._process = subprocess.Popen(
            [binary, f"--control=unix:{control}", f"--seed={seed}"]
            + [f"{name}={listen}={target}" for name, (listen, target) in links.items()],
            stdout=subprocess.PIPE, text=True)
        # The address of each link: for port 0 the port that was taken.
        self.addresses = {}
        for line in self._process.stdout:
            words = line.split()
            if words == ["ready"]:
                break
            self.addresses[words[1]] = words[2]
        else:
            self._process.wait()
            self._process.stdout.close()
            self._folder.cleanup()
            raise RuntimeError("chaos-proxy ended before it was ready")
        self._control = socket.socket(socket.AF_UNIX)
        self._control.connect(control)
        self._answers = self._control.makefile("r", encoding="utf-8")

    def query(self, line):
        """The answer to one command, unchanged."""
        self._control.sendall(line.encode() + b"\n")
        return self._answers.readline().rstrip("\n")

    def command(self, line):
        """One command, which has been applied when this returns."""
        answer = self.query(line)
        if answer != "ok":
            raise ValueError(f"{line}: {answer}")

    def stats(self, name):
        return next(link for link in json.loads(self.query("stats")) if link["name"] == name)

    @property
    def pid(self):
        return self._process.pid

    def close(self):
        """Ends it; returns its exit code."""
        self._answers.close()
        self._control.close()
        self._process.terminate()
        code = self._process.wait(timeout=10)
        self._process.stdout.close()
        self._folder.cleanup()
        return code
